"""One candidate on the recorded data: each record is assigned first, and learned then, as a worker does it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import thread_time
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.evaluate.dataset import Dataset
from resonance.pipeline.evaluate.source import Recording, loaded, rearranged, separated
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.kernels import compile_engine
from resonance.pipeline.records import Outputs, Record, TopicPartition
from resonance.pipeline.replay.file_partitions import FileReplay
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.sinks import Sink
from resonance.pipeline.replay.two_stage_file import Routes
from resonance.pipeline.task.encode.cluster_description import present
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.schemas import Incident

NO_CLUSTER: Final = -1
"""Answered, and in no cluster."""

NO_ANSWER: Final = -2
"""A record that could not be used."""

BATCH: Final = 2_000
"""Records that are processed at once where all of them are in memory."""

LIKELY: Final = 0.5
"""A label is predicted above this probability."""


@dataclass(slots=True)
class Run:
    """What a candidate answered; the arrays have an entry for each record."""

    cluster: NDArray[np.int32]
    """Number of its cluster of the first level among `names`, `NO_CLUSTER` or `NO_ANSWER`."""
    names: list[str]
    stream: NDArray[np.int32]
    """Number of the stream that answered among `streams`; -1 where none did."""
    streams: list[str]
    path: NDArray[np.int32]
    """Number of its clusters of all levels among `paths`; -1 where there is none."""
    paths: list[tuple[str, ...]]
    novel: NDArray[np.bool_]
    predicted: NDArray[np.int32]
    """Number of the predicted labels among `label_sets`; -1 where none were known."""
    label_sets: list[tuple[str, ...]]
    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Cluster events, each with the record that caused it."""
    drifts: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    present: list[dict[str, Any]] = field(default_factory=list)
    """The clusters at the end, each with its stream."""
    incidents: list[Incident] = field(default_factory=list)
    """What happened, the newest first."""
    dead_letters: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    """CPU time of decoding, learning and encoding."""
    state_bytes: int = 0
    """Size of the models at the end, as snapshots have them."""


class Numbers:
    """Numbers things in the order in which they come."""

    def __init__(self, size: int) -> None:
        self.found: dict[Any, int] = {}
        self.column = np.full(size, -1, dtype=np.int32)

    def __getitem__(self, thing: Any) -> int:
        return self.found.setdefault(thing, len(self.found))


class AnswerSink(Sink):
    """Collects the outputs of all partitions."""

    def __init__(self, data: Dataset) -> None:
        size = len(data)
        self._offsets: dict[TopicPartition, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for number, at in enumerate(data.logs):
            mine = np.flatnonzero(data.log == number)
            self._offsets[at] = data.offset[mine], mine
        self._cluster, self._stream, self._path, self._labels = (Numbers(size) for _ in range(4))
        self._cluster.column[:] = NO_ANSWER
        self._novel = np.zeros(size, dtype=np.bool_)
        self._last = 0
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.drifts: list[tuple[int, dict[str, Any]]] = []
        self.present: list[dict[str, Any]] = []
        self._happened = IncidentTable()
        self.state_bytes = 0
        self.seconds = 0.0
        """CPU time spent here, which is no cost of the models."""

    def write(self, outputs: Outputs) -> None:
        """Take the outputs of a batch."""
        began = thread_time()
        answers = [orjson.loads(message.value or b"") for message in outputs.assignments]
        for at, place in self._places([answer["source"] for answer in answers]):
            self._take(answers[at], place)
        for kind, to in (("cluster_events", self.events), ("drift_events", self.drifts), ("alerts", None)):
            found = [orjson.loads(message.value or b"") for message in outputs.of(kind)]
            for output in found:
                self._happened.apply(kind, output)
            if to is None:
                continue
            places = dict(self._places([event["cause"]["source"] for event in found]))
            # What a late label caused belongs to the newest record.
            to += [(places.get(at, self._last), event) for at, event in enumerate(found)]
        self.seconds += thread_time() - began

    def _places(self, sources: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
        """Yield the number of each source with its place among the records, of those that are among them."""
        grouped: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        for number, source in enumerate(sources):
            grouped[source["topic"], source["partition"]].append(number)
        for at, numbers in grouped.items():
            if at in self._offsets:
                offsets, mine = self._offsets[at]
                found = mine[np.searchsorted(offsets, [sources[number]["offset"] for number in numbers])]
                yield from zip(numbers, found.tolist(), strict=True)

    def _take(self, answer: dict[str, Any], place: int) -> None:
        name, clusters = answer["cluster"], tuple(answer["clusters"])
        self._cluster.column[place] = NO_CLUSTER if name is None else self._cluster[name]
        self._stream.column[place] = self._stream[answer["stream"]]
        if clusters:
            self._path.column[place] = self._path[clusters]
        self._novel[place] = answer["novel"]
        if "labels" in answer:
            likely = tuple(sorted(label for label, share in answer["labels"].items() if share > LIKELY))
            self._labels.column[place] = self._labels[likely]
        self._last = max(self._last, place)

    def close(self, models: Iterable[StreamModel] = ()) -> None:
        """Take the clusters, and the size, of the models of a partition at the end."""
        for model in models:
            self.state_bytes += len(model.state())
            self.present += [{**cluster, "stream": model.stream} for cluster in present(model)]

    def run(self) -> Run:
        """Return everything."""
        for events in (self.events, self.drifts):
            events.sort(key=lambda each: each[0])
        return Run(
            self._cluster.column,
            list(self._cluster.found),
            self._stream.column,
            list(self._stream.found),
            self._path.column,
            list(self._path.found),
            self._novel,
            self._labels.column,
            list(self._labels.found),
            self.events,
            self.drifts,
            self.present,
            self._happened.incidents(),
            state_bytes=self.state_bytes,
        )


def run_candidate(settings: Settings, source: Recording, data: Dataset, seed: int | None, report: Report) -> Run:
    """Assign and learn all records with empty models; with a `seed` in a random order of each partition."""
    compile_engine(settings)
    order = None
    if seed is not None:
        data, order = data.rearranged(seed)
    answers = AnswerSink(data)
    late = [at for at in source.logs if at[0] == settings.labels.topic]
    routes = Routes.of(settings, len(data.logs))
    replay = FileReplay(settings, len(routes.logs))
    for at in (*data.logs, *late, *routes.logs):
        replay.add(at, lambda: answers)
    seconds = 0.0
    for records in _batches(source, order, is_routed=settings.is_routed):
        began = thread_time()
        routes.take(replay.take, records)
        seconds += thread_time() - began
        report(len(records))
    parts = replay.close()
    run = answers.run()
    run.seconds = seconds - answers.seconds
    run.dead_letters = sum((Counter(part.dead_letters) for part in parts), Counter())
    return run


def _batches(source: Recording, order: NDArray[np.int64] | None, *, is_routed: bool) -> Iterator[list[Record]]:
    """Yield the records of one topic, or of one partition; of routed streams in the order of the evaluation."""
    batches: Iterable[list[Record]] = source.batches()
    if order is not None or (is_routed and not source.in_order):
        records = loaded(source)
        if order is not None:
            records = rearranged(records, order)
        batches = (records[first : first + BATCH] for first in range(0, len(records), BATCH))
    for batch in batches:
        yield from separated(batch, in_order=is_routed)
