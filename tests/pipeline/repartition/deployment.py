"""A re-keyed deployment in memory: the workers of both hops in a few lines."""

from typing import Any

import pytest
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.records import OUTPUT_KINDS, Outputs, TopicPartition
from resonance.pipeline.tasks import Task, make_task

from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.repartition.two_hops import ROUTES, inputs
from tests.pipeline.streams import STAMP

EMITTED = ("assignments", "cluster_events", "dead_letters", "clusters", "drift_events")
KEYED: dict[str, Any] = {
    "stream": "partition",
    "hierarchy": "keyed",
    "engine__name": "hcaea",
    "engine__lambda": 6,
    "engine__min_cluster_records": 3,
    "engine__min_child_records": 3,
    "engine__max_leaves": 25,
    "engine__max_nodes": 12,
}
"""Settings under which the roots of two streams have many subtrees."""


class RekeyedDeployment(MemoryDeployment):
    """As `MemoryDeployment`, with routes.

    Parameters
    ----------
    patch : MonkeyPatch
        As there.
    partitions, routes : int
        Partitions of the input, and of the routes.
    records : int
        Records of all partitions together.
    **changed : object
        Settings other than `LIVELY`.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        partitions: int = 2,
        routes: int = 3,
        records: int = 900,
        *,
        labels: int = 0,
        **changed: Any,
    ) -> None:
        given = {"stream": "field:country", "input__id_path": "id", **changed}
        super().__init__(patch, partitions, 1, routes=routes, labels=labels, **given)
        for (topic, partition), log in inputs(records, partitions).items():
            self.logs[topic, partition] = [record._replace(offset=i) for i, record in enumerate(log)]
        kinds = (*EMITTED, "snapshots", "archive", "routes")
        for partition in range(max(partitions, routes, labels)):
            for kind in kinds:
                self.logs.setdefault((self.given.topic(kind), partition), [])

    def task(self, topic: str, partition: int) -> Task:  # type: ignore[override]
        return make_task(self.given, topic, partition, **self.source.deployment.counts)

    def turn(
        self,
        share: float = 1.0,
        *,
        everything: bool = False,
        archive: bool = False,
        lost: bool = False,
        kept: bool = True,
        only: str | None = None,
    ) -> dict[TopicPartition, Outputs]:
        """Start a worker, process a share of what each log has, inputs first, commit and be killed.

        Parameters
        ----------
        share : float
            Of the records that wait.
        everything, archive : bool
            What the commit writes.
        lost : bool
            The commit fails: outputs were stored, and neither snapshots nor offsets, as under at least once.
        kept : bool
            The commit writes snapshots where they are due.
        only : str, optional
            The only topic that is processed.
        """
        said = {}
        for topic in self.source.identities:
            if only not in (None, topic):
                continue
            assigned = [at for at in self.source.logs if at[0] == topic]
            for at, part in restore_partitions(self.source, assigned, self.task).items():
                waiting = [record for record in self.logs[at] if record.offset >= part.start]
                records = waiting[: round(len(waiting) * share)]
                outputs = said[at] = part.task.process(records)
                self.tell(at, outputs)
                position = records[-1].offset + 1 if records else part.start
                if lost:
                    continue
                due = part.writer.messages(part.task, position, position, everything=everything) if kept else ()
                for message in due:
                    self.append((self.source.snapshots, at[1]), message, timestamp=STAMP)
                if archive and records:
                    writer = ArchiveWriter(self.source.archive, at[1], self.source.identities[topic], 1.0)
                    for message in writer.messages(part.task, position, records[-1].timestamp):
                        self.append((self.source.archive, at[1]), message)
                self.offsets[at] = position
        return said

    def tell(self, at: TopicPartition, outputs: Outputs) -> None:
        """Write outputs where they go."""
        for kind in OUTPUT_KINDS:
            for message in outputs.of(kind):
                to = at[1] if message.partition is None else message.partition
                # Behind each a marker, so that a log ends where the next message comes.
                self.append((self.given.topic(kind), to), message, timestamp=STAMP, gap=1)

    def models(self) -> dict[str, bytes]:
        """State of every stream as a start finds it."""
        assigned = [at for at in self.source.logs if at[0] == ROUTES]
        parts = restore_partitions(self.source, assigned, self.task)
        return {name: part.task.model(name).state() for part in parts.values() for name in part.task.streams}
