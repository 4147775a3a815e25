"""Answers for records now, in any process: the models of the newest snapshots, which are followed and never learn."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.engine.errors import StateError
from resonance.engine.prepare import Preparation
from resonance.pipeline import text
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, Identity
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.columns import Texts, Times
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import DeniedError, MismatchError
from resonance.pipeline.inspect.inspection import time_before
from resonance.pipeline.inspect.listing import empty_task
from resonance.pipeline.kafka.log_reader import LogReader, RestoreCancelledError
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Record, SourceRecord, TopicPartition
from resonance.pipeline.recovery import entry
from resonance.pipeline.repartition.placing import NoPlaceError, Placing
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.scoring import ModelPlace, Refusal, Scored, Scores, no_model
from resonance.pipeline.tasks import Task

__all__ = ["ModelPlace", "NoPlaceError", "Record", "Refusal", "Scored", "Scorer", "Scores"]

PATIENCE: Final = 10.0
"""Seconds without an answer of the broker after which a look is given up and begun again."""

KNOWN_SECONDS: Final = 30.0
"""Age of the last look from which it is unknown how much stands behind a model."""

DATED: Final = 8
"""Models whose last record is read in one look, for its time."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Partition:
    """The models of a partition, and what is known of its log."""

    task: Task
    identity: Identity
    versions: dict[str, str] = field(default_factory=dict)
    """Checksum of the state of each stream's model."""
    times: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    """Of streams that were scored: up to where their model had learned, and the time of the record before."""
    position: int = 0
    """Every snapshot contains the records below this offset."""
    end: int | None = None


class Scorer:
    """Says of records what a worker would, from the snapshots of a deployment; it learns nothing and writes nothing.

    A model is followed from snapshot to snapshot. The answer for a record is what a worker with this model would have
    given it as its next one. `Scored.model` says how much the model knows.

    It joins no group. Any number of threads may use it, one after the other; close it at the end.

    Parameters
    ----------
    settings : Settings, path or None
        Those of the deployment, or their file; None for the environment and ``resonance.toml``.
    interval : float
        Seconds between two looks at the snapshots.

    Attributes
    ----------
    trouble : str
        Why the last look failed, such as a broker that is away; empty where it did not. Answers go on.

    Raises
    ------
    ConfigurationError
        A setting cannot be used, or ``hierarchy`` is ``keyed``.
    BrokerError
        The broker does not answer, or has no snapshots of the deployment.
    MismatchError
        The snapshots are of another deployment or of another release.

    Examples
    --------
    >>> with Scorer("resonance.toml") as scorer:  # doctest: +SKIP
    ...     scorer.score({"latency_ms": 173.0, "cpu": 0.56}, key=b"eu-west").assignment
    """

    def __init__(self, settings: Settings | Path | str | None = None, *, interval: float = 1.0) -> None:
        if not isinstance(settings, Settings):
            settings = Settings.load(None if settings is None else Path(settings))
        settings.check_local("Scorer", "a tree in parts has no version of its own; read the assignments")
        self.trouble = ""
        self._settings, self._interval = settings, interval
        self._source = entry.open_source(settings)
        self._placing = Placing(settings, self._source.deployment.partitions, self._source.deployment.routes)
        # One thread at a time answers, or puts models in the place of others: kernels write into arrays of the model.
        self._lock = threading.Lock()
        self._held: dict[TopicPartition, _Partition] = {}
        self._undated: dict[tuple[TopicPartition, str], None] = {}
        self._looked = 0.0
        # Of the thread that follows: what it has read, and the streams that have changed and are not taken yet.
        self._tables: dict[TopicPartition, ChangelogTable] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._changed: dict[TopicPartition, set[str]] = {}
        self._stop = threading.Event()
        settings.engine_class.compile()
        Preparation.compile(project=settings.may_project)
        text.compile()
        with self._source.reader(self._stop, patience=PATIENCE) as reader:
            self._look(reader)
        self._thread = threading.Thread(target=self._follow, name="scorer", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._stop.set()
        self._thread.join(2 * PATIENCE)

    @property
    def models(self) -> dict[str, ModelPlace]:
        """How much the model of each stream knows."""
        with self._lock:
            return {
                name: self._dated(at, ModelPlace(name, model.version, model.next))
                for at, held in self._held.items()
                for name, model in zip(held.task.models.names, held.task.models, strict=True)
            }

    def score(
        self, value: bytes | Mapping[str, Any], key: bytes | None = None, *, topic: str = "", partition: int = -1
    ) -> Scored:
        """Return the answer for a record that stands in no log, as if it came now and next.

        Parameters
        ----------
        value : bytes or mapping
            Its value as producers send it; a mapping stands for a JSON object.
        key : bytes, optional
            Its key.
        topic, partition
            The input's, where it has several topics, or where neither the key nor the value says which stream it is.

        Raises
        ------
        NoPlaceError
            There is no such partition, or the stream depends on which it is.
        """
        given = value if isinstance(value, bytes) else orjson.dumps(value)
        return self.score_all([Record(topic, partition, -1, _now(), key, given)])[0]

    def score_all(self, records: Sequence[Record]) -> list[Scored]:
        """Return the answer for each of some records, which keep the places and times that they have."""
        found: list[Scored] = [Scored()] * len(records)
        own: dict[TopicPartition, list[tuple[int, SourceRecord]]] = {}
        for position, record in enumerate(records):
            try:
                at, placed = self._placing.place(record)
            except FaultError as error:
                found[position] = Scored(refusal=Refusal.of(error))
            else:
                own.setdefault(at, []).append((position, placed))
        for at, placed_records in own.items():
            some = [one for _, one in placed_records]
            scores = self._scores(at, len(some), PartitionTask.score, some)
            for (position, _), scored in zip(placed_records, scores.each(), strict=True):
                found[position] = scored
        return found

    def score_batch(
        self,
        values: Sequence[bytes] | NDArray[np.float64],
        key: bytes | None = None,
        *,
        topic: str = "",
        partition: int = -1,
    ) -> Scores:
        """Return the answers for many records of one stream, as columns, which costs less than `score_all`.

        Parameters
        ----------
        values : sequence of bytes, or ndarray of shape (n, features)
            Values of records; or their features in the order of the model, NaN where one is missing.
        key : bytes, optional
            Their key; of repartitioned records that of their stream.
        topic, partition
            As in `score`.
        """
        now, count = _now(), len(values)
        at = (
            self._placing.of_stream(key or b"")
            if self._settings.is_rekeyed
            else self._placing.place(Record(topic, partition, -1, now, key, b""))[0]
        )
        if not isinstance(values, np.ndarray):
            columns = RecordColumns.of_values(at, values, key, now)
            return self._scores(at, count, PartitionTask.score, columns)
        times, keys, nowhere = Times(np.full(count, now)), Texts.repeated(key, count), [-1] * count
        batch = RecordBatch(values, times, [0] * count, nowhere, keys, index=range(count))
        return self._scores(at, count, PartitionTask.score_batch, batch, count)

    def _scores(self, at: TopicPartition, count: int, call: Callable[..., Scores], *given: Any) -> Scores:
        with self._lock:
            if (held := self._held.get(at)) is None:
                return Scores(count, refusals=dict.fromkeys(range(count), no_model(f"of {at[0]}[{at[1]}]")))
            scores = call(held.task, *given)
            self._undated |= dict.fromkeys((at, place.stream) for _, place in scores.models)
            scores.models = [(positions, self._dated(at, place)) for positions, place in scores.models]
            return scores

    def _dated(self, at: TopicPartition, place: ModelPlace) -> ModelPlace:
        """Return the place of a model with what is known of its time and of what stands behind it."""
        held = self._held[at]
        next_, moment = held.times.get(place.stream, (-1, None))
        behind = None
        if held.end is not None and time.monotonic() - self._looked < KNOWN_SECONDS:
            behind = max(held.end - max(place.next, held.position), 0)
        return place._replace(time=moment if next_ == place.next else None, behind=behind)

    # The thread that follows

    def _follow(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                with self._source.reader(self._stop, patience=PATIENCE) as reader:
                    while not self._stop.wait(self._interval):
                        self._look(reader)
                        self.trouble = ""
            except RestoreCancelledError:
                return
            except Exception as error:  # answers go on with the models that are there
                if str(error) != self.trouble:
                    _log.warning("the snapshots of %s: %s", self._settings.name, error)
                self.trouble = str(error)

    def _look(self, reader: LogReader) -> None:
        """Read what has come, and take it; raise at the end what was wrong with the first of it that cannot be used."""
        errors: list[Exception] = []
        snapshots = [(self._source.snapshots, number) for number in range(self._source.deployment.state_partitions)]
        ranges = {}
        for at, (first, end) in reader.bounds(snapshots).items():
            if at not in self._tables or self._positions[at] > end:
                # At the beginning, or the topic was deleted and made again.
                self._tables[at], self._positions[at] = ChangelogTable(*at), first
            ranges[at] = max(self._positions[at], first), end
        for at, records in reader.read(ranges):
            for record in records:
                self._tables[at].apply(record.key, record.value, record.timestamp)
                self._positions[at] = record.offset + 1
                self._changed.setdefault(at, set()).add(_stream_of(record.key))
        for at, (_, end) in ranges.items():
            self._positions[at] = end
            if at in self._changed:
                try:
                    with self._lock:
                        failed = self._take(self._tables[at], self._changed[at])
                except (MismatchError, StateError) as error:
                    failed = dict.fromkeys(self._changed[at], error)
                errors += failed.values()
                self._changed[at] = set(failed)
                if not failed:
                    del self._changed[at]
        with suppress(DeniedError):
            self._date(reader)
        self._looked = time.monotonic()
        if errors:
            raise errors[0]

    def _take(self, table: ChangelogTable, changed: Collection[str]) -> dict[str, MismatchError | StateError]:
        """Answer with the newest models of a partition from now on; return why those of some streams are none."""
        failed = {}
        table.check_owner(self._settings.name)
        table.check()
        records = table.records()
        for at in [at for at in self._held if at[1] == table.partition and at[0] not in records]:
            del self._held[at]
        for topic, record in records.items():
            at, checkpoint = (topic, table.partition), table.checkpoint(topic)
            if checkpoint is None or (self._settings.is_rekeyed and topic != self._source.routes):
                continue
            held = self._held.get(at)
            if held is None or held.identity != record.identity:
                held = _Partition(empty_task(self._settings, checkpoint), record.identity)
            names = changed if held is self._held.get(at) else table.streams(topic)
            held.position = record.recovery_offset
            for name in names:
                try:
                    self._replace(held, name, table)
                except (MismatchError, StateError) as error:
                    failed[name] = error
            self._held[at] = held
        return failed

    def _replace(self, held: _Partition, name: str, table: ChangelogTable) -> None:
        """Answer with the newest model of a stream from now on, or with none where it has ended."""
        manifest = table.manifest(name)
        if manifest is not None and manifest.topic == held.identity.topic:
            if held.versions.get(name) != manifest.sha256:
                held.task.models.replace(name, table.newest(name))
                held.versions[name] = manifest.sha256
        elif held.versions.pop(name, None) is not None:
            held.times.pop(name, None)
            held.task.models.replace(name, None)

    def _date(self, reader: LogReader) -> None:
        """Look up where the logs end, and the times of some models that have answered."""
        for at, (_, end) in reader.bounds(self._held).items():
            self._held[at].end = end
        for at, name in list(self._undated)[:DATED]:
            del self._undated[at, name]
            with self._lock:
                held = self._held.get(at)
                model = held and held.task.models.get(held.task.models.key_of(name))
                next_ = model.next if model else -1
            if held is not None and next_ > 0 and held.times.get(name, (0,))[0] != next_:
                held.times[name] = next_, time_before(reader, at, next_)


def _stream_of(key: bytes | None) -> str:
    """Return the stream of a manifest's key; no name for all other keys."""
    try:
        kind, name, *_ = orjson.loads(key or b"")
    except UNREADABLE:
        return ""
    return name if kind == "manifest" and isinstance(name, str) else ""


def _now() -> int:
    return int(time.time() * 1000)
