"""How steady the clusters are: whether records stay in their cluster, followed through its splits and absorptions."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.prepare import Preparation
from resonance.engine.prepare.sparse import SparsePreparation
from resonance.pipeline.evaluate.dataset import Dataset
from resonance.pipeline.records import Record
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.tasks import Task

CHECKPOINTS: Final = 8
"""Parts into which the records are divided; at the end of each the models are looked at."""

SAMPLE: Final = 250
"""Most records of a part that are followed."""

NONE: Final = -1
"""No cluster."""

Names = list[str | None]


class Checkpoint(NamedTuple):
    """The records of the part before a checkpoint, when the next part was learned as well."""

    at: int
    """Records by then."""
    followed: int
    same: int
    """Those whose cluster is the one from before, or one that came from it."""


class Checkpoints:
    """Compares at each checkpoint in which cluster the models see some records with the checkpoint before.

    `events` is the list into which the events go as they come, and `streams` returns which streams answered some
    records. With `whole` all partitions are one sequence.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        data: Dataset,
        events: list[tuple[int, dict[str, Any]]],
        streams: Callable[[NDArray[np.int64]], Names],
        *,
        whole: bool,
    ) -> None:
        self._tasks, self._data, self._events, self._streams = tasks, data, events, streams
        self._numbers = {at: 0 if whole else number for number, at in enumerate(data.logs)}
        self._parts: list[list[NDArray[np.int64]]] = []
        for number in sorted(set(self._numbers.values())):
            mine = np.arange(len(data)) if whole else np.flatnonzero(data.log == number)
            self._parts.append([part for part in np.array_split(mine, CHECKPOINTS) if len(part)])
        self._done = [0] * len(self._parts)
        self._passed = [0] * len(self._parts)
        self._followed: dict[int, tuple[NDArray[np.int64], Names, int]] = {}
        self.found: list[Checkpoint] = []

    def _left(self, number: int) -> int:
        """Return how many records are missing to the next checkpoint of a sequence."""
        parts = self._parts[number][: self._passed[number] + 1]
        return sum(map(len, parts)) - self._done[number]

    def cut(self, records: list[Record]) -> Iterator[list[Record]]:
        """Yield records of one partition in pieces that end at the checkpoints."""
        number = self._numbers.get((records[0].topic, records[0].partition))
        while records:
            size = len(records) if number is None else min(self._left(number) or len(records), len(records))
            yield records[:size]
            records = records[size:]

    def passed(self, records: Sequence[Record]) -> None:
        """Note that records were learned, and look at the models where a checkpoint is reached."""
        number = self._numbers.get((records[0].topic, records[0].partition))
        if number is None:
            return
        self._done[number] += len(records)
        while self._passed[number] < len(self._parts[number]) and self._left(number) == 0:
            self._look(number)
            self._passed[number] += 1

    def _look(self, number: int) -> None:
        part = self._parts[number][self._passed[number]]
        if number in self._followed:
            before, names, seen = self._followed[number]
            now, came = self._names(before), _origins(self._events[seen:])
            known = [(old, new) for old, new in zip(names, now, strict=True) if old is not None]
            same = sum(new is not None and old in came.get(new, {new}) for old, new in known)
            self.found.append(Checkpoint(int(part[-1]) + 1, len(known), same))
        sample = part[np.linspace(0, len(part) - 1, min(len(part), SAMPLE)).astype(np.int64)]
        self._followed[number] = sample, self._names(sample), len(self._events)

    def _names(self, sample: NDArray[np.int64]) -> Names:
        """Return the cluster in which the models see each record now; None for no cluster."""
        names: Names = [None] * len(sample)
        by_stream: defaultdict[str, list[int]] = defaultdict(list)
        for place, stream in enumerate(self._streams(sample)):
            if stream is not None:
                by_stream[stream].append(place)
        for task in self._tasks:
            for stream in by_stream.keys() & set(task.models.names):
                places, model = by_stream[stream], task.models.named(stream)
                for place, cluster in zip(places, _clusters(model, self._data, sample[places]), strict=True):
                    names[place] = f"{model.stream}/{model.version}/{cluster}" if cluster >= 0 else None
        return names


def _clusters(model: StreamModel, data: Dataset, places: NDArray[np.int64]) -> list[int]:
    """Return the cluster of the first level in which a model sees each record; -1 where it sees none."""
    found = np.full(len(places), NONE)
    preparation: Any = model.preparation
    rows: Any
    if isinstance(preparation, SparsePreparation) and data.sparse is not None:
        # Only `apply` prepares sparse records, and it may add names: a copy does it.
        preparation = SparsePreparation.from_state(preparation.state())
        rows, prepare = data.sparse[places], preparation.apply
    elif isinstance(preparation, Preparation) and preparation.ready and preparation.features == data.features:
        # Unlike `apply`, `transform` leaves the preparation as it is.
        rows, prepare = data.rows[places], preparation.transform
    else:
        return found.tolist()
    bad = preparation.check(rows)
    usable = np.array([place for place in range(len(places)) if place not in bad], dtype=np.int64)
    if len(usable):
        found[usable] = model.engine.predict(prepare(rows[usable])).cluster[:, 0]
    return found.tolist()


def _origins(events: Sequence[tuple[int, dict[str, Any]]]) -> dict[str, set[str]]:
    """Return for each cluster that changed the clusters that went into it, itself included."""
    came: dict[str, set[str]] = {}
    for _, event in events:
        name, other = str(event["cluster"]), str(event.get("other"))
        if event["kind"] == "split":
            came[name] = {name} | came.get(other, {other})
        elif event["kind"] == "absorbed":
            came[other] = came.get(other, {other}) | came.get(name, {name})
    return came
