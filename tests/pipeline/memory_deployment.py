"""A deployment in memory: topics that are lists, and a worker in a few lines."""

from collections.abc import Sequence
from typing import Any, Self

import pytest
from resonance.pipeline.checkpoint import archive_writer, restore
from resonance.pipeline.checkpoint.archive_reader import present_line
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.compatibility import offset_note
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, OffsetRange
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Message, Outputs, TopicPartition
from resonance.pipeline.recovery import (
    drain_subtrees,
    entry,
    import_checkpoint,
    new_version,
    recovery,
    reset,
    rewrite,
    rollback,
)
from resonance.pipeline.recovery.rewrite import Change
from resonance.pipeline.task.partition_task import PartitionTask

from tests.pipeline.logs import MemoryReader
from tests.pipeline.streams import STAMP, TOPIC, points, settings, value_of

MODULES: Sequence[Any] = (
    archive_writer,
    rewrite,
    recovery,
    rollback,
    reset,
    restore,
    import_checkpoint,
    drain_subtrees,
    new_version,
)


class MemoryDeployment(MemoryReader):
    """Topics of one deployment, and what reads and changes them, instead of a broker.

    Parameters
    ----------
    patch : MonkeyPatch
        Puts it in the place of a `LogReader` and of what writes changes.
    partitions : int
        Partitions of the input.
    records : int
        Records of each partition.
    routes, labels : int
        Partitions of the routes, and of the topic of labels.
    **changed : object
        Settings other than `LIVELY`.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        partitions: int = 1,
        records: int = 600,
        *,
        routes: int = 0,
        labels: int = 0,
        **changed: Any,
    ) -> None:
        super().__init__()
        self.partitions = range(partitions)
        self.given: Settings = settings(**{"stream": "key", **changed})
        ids = {TOPIC: "id-1", self.given.topic("routes"): "id-2", self.given.labels.topic or "": "id-3"}
        self.source = DeploymentContext.of(self.given, {}, Deployment(partitions, ids, routes=routes, labels=labels))
        self.offsets: dict[TopicPartition, int] = {}
        self.written: list[Change] = []
        self.waited: list[int] = []
        self.beside: dict[TopicPartition, str] = {}
        # A change is written, but for the offsets.
        self.stopped = False
        for partition in self.partitions:
            outputs = map(
                self.given.topic, ("assignments", "cluster_events", "drift_events", "dead_letters", "clusters")
            )
            for topic in (self.source.snapshots, self.source.archive, *outputs):
                self.logs[topic, partition] = []
            for i, row in enumerate(points(records, seed=partition).tolist()):
                message = Message(b"ab"[i % 3 % 2 :][:1], value_of(row, id=f"r{i}"), [])
                self.append((TOPIC, partition), message, timestamp=STAMP + 1_000 * i)
        for module in MODULES:
            patch.setattr(module, "LogReader", lambda *_: self)
        for module in (rewrite, recovery, reset, new_version):
            patch.setattr(module, "write", self.write)
        patch.setattr(reset, "forget_archives", lambda _: self.forget_archives())
        patch.setattr(entry, "open_source", lambda _: self.source)
        patch.setattr("resonance.pipeline.kafka.log_reader.LogReader", lambda *_: self)
        self.members: list[str] | None = None
        patch.setattr(rewrite, "members_of", lambda _: self.members)
        patch.setattr("resonance.pipeline.cli.plans.alone", lambda _: self.waited.append(len(self.written)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def notes(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
        return {at: self.beside.get(at, "") for at in partitions}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: self.offsets.get(at, NO_OFFSET) for at in partitions}

    def settled_bounds(self, partitions: Sequence[TopicPartition], seconds: float) -> dict[TopicPartition, OffsetRange]:
        return self.bounds(list(partitions))

    def offsets_at(self, partitions: Sequence[TopicPartition], moment: int) -> dict[TopicPartition, int]:
        return {
            at: next((record.offset for record in self.logs[at] if record.timestamp >= moment), NO_OFFSET)
            for at in partitions
        }

    def grow(self, records: int) -> None:
        """Append records to the input."""
        for partition in self.partitions:
            begin = len(self.logs[TOPIC, partition])
            for i, row in enumerate(points(begin + records, seed=partition).tolist()[begin:], start=begin):
                message = Message(b"ab"[i % 3 % 2 :][:1], value_of(row, id=f"r{i}"), [])
                self.append((TOPIC, partition), message, timestamp=STAMP + 1_000 * i)

    def take_settings(self, given: Settings) -> None:
        """Go on with other settings."""
        self.given, self.source = given, DeploymentContext.of(given, {}, self.source.deployment)

    def task(self, topic: str, partition: int) -> PartitionTask:
        return PartitionTask(self.given, topic, partition)

    def work(self, until: int, *, everything: bool = False, archive: bool = False, snapshots: bool = True) -> Outputs:
        """Restore every partition, process it up to an offset and commit; return the outputs.

        Without `snapshots` it is a worker's later commit, with which none is due, and then it is killed.
        """
        whole = Outputs()
        inputs = [(TOPIC, partition) for partition in self.partitions]
        for at, part in restore_partitions(self.source, inputs, self.task).items():
            records = [record for record in self.logs[at] if part.start <= record.offset < until]
            outputs = part.task.process(records)
            whole.add(outputs)
            for kind in ("assignments", "cluster_events", "drift_events", "dead_letters", "clusters"):
                for message in outputs.of(kind):
                    self.append((self.given.topic(kind), at[1]), message)
            for message in part.writer.messages(part.task, until, until, everything=everything):
                if snapshots:
                    self.append((self.source.snapshots, at[1]), message, timestamp=STAMP + 1_000 * until)
            if archive:
                line = present_line(self, self.source, at)
                writer = ArchiveWriter(self.source.archive, at[1], self.source.identities[TOPIC], 1.0, line=line)
                for message in writer.messages(part.task, until, records[-1].timestamp):
                    self.append((self.source.archive, at[1]), message)
            self.offsets[at], self.beside[at] = until, offset_note(part.writer.began, part.task.first_version)
        return whole

    def write(self, source: DeploymentContext, changed: Sequence[Change], *, atomic: bool) -> None:
        """Do what `changes.write` does."""
        for change in changed:
            for message in change.messages:
                self.append((source.snapshots, change.at[1]), message)
            for message in change.archive:
                self.append((source.archive, change.at[1]), message)
            for message in change.clusters:
                to = change.at[1] if message.partition is None else message.partition
                self.append((source.clusters, to), message)
            for batch in change.outputs:
                for message in batch.messages:
                    to = batch.partition if message.partition is None else message.partition
                    self.append((batch.topic, to), message)
            if self.stopped:
                raise BrokerError("stopped before the offsets")
            self.offsets[change.at], self.beside[change.at] = change.offset, change.note
        self.written += changed

    def forget_archives(self) -> None:
        """Do what `resetting.forget_archives` does."""
        for partition in self.partitions:
            self.logs[self.source.archive, partition] = []
