"""Drain the subtrees of roots that start a new version, where the levels of a hierarchy learn in separate stages.

A root that starts its next version sends nothing more to the subtrees of the version before. The second stage therefore
first processes the messages still on their way to them, and emits the assignments of those records. Then the subtrees
are removed, and the stream's next record emits the end of their clusters together with the end of the root's clusters.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from resonance.engine.errors import StateError
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader, OffsetRange
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.memory_budget import RECORD, MemoryBudget
from resonance.pipeline.records import Outputs, Record, TopicPartition
from resonance.pipeline.recovery.past_models import MakeTaskThen, models_then
from resonance.pipeline.recovery.rewrite import Change, new_models
from resonance.pipeline.repartition.keyed.operation_records import Reader
from resonance.pipeline.repartition.keyed.subtree_model import SubtreeModel
from resonance.pipeline.repartition.keyed.subtree_task import SubtreeTask
from resonance.pipeline.task.encode.assignments import StreamTexts, describe
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import Task

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Part:
    """A partition of the routes without unprocessed messages."""

    at: TopicPartition
    task: SubtreeTask
    """Has processed every message."""
    outputs: Outputs
    """Outputs of the messages that were unprocessed."""
    was: int
    """The group's committed offset."""
    end: int
    """Offset at which the group continues."""


class Below:
    """The subtrees below the roots of a deployment, with every waiting message processed.

    `begins` maps each input partition whose roots start a new version to the offset where it starts; `stream` limits
    this to one stream, and is empty for all. Raises `MismatchError` where more messages wait than `limits.memory` has
    room for: workers must process them first.
    """

    def __init__(
        self,
        settings: Settings,
        source: DeploymentContext,
        tables: Mapping[int, ChangelogTable],
        make_task: MakeTaskThen,
        begins: Mapping[TopicPartition, int],
        stream: str = "",
    ) -> None:
        self._settings, self._tables, self._make_task = settings, tables, make_task
        self._begins, self._stream = begins, stream
        self._read = Reader(source.routes).read_one
        self._ended: list[SubtreeModel] = []
        self._room = MemoryBudget.unchecked(settings.limits.memory).drained
        places = [at for at in source.logs if at[0] == source.routes]
        with LogReader(source.client, source.group, source.patience) as reader:
            committed = reader.committed(places)
            bounds = reader.settled_bounds(places, source.patience)
            self._parts = [self._part(reader, source, at, committed[at], bounds[at]) for at in places if bounds[at][1]]

    @classmethod
    def of(
        cls,
        settings: Settings,
        source: DeploymentContext,
        make_task: MakeTaskThen,
        begins: Mapping[TopicPartition, int],
        stream: str = "",
    ) -> Self:
        """Read the subtrees from the snapshots topic and drain them; the parameters are those of the class."""
        with LogReader(source.client, source.group, source.patience) as reader:
            tables = read_tables(reader, source, range(source.deployment.state_partitions), settle=source.patience)
        return cls(settings, source, tables, make_task, begins, stream)

    def _part(
        self, reader: LogReader, source: DeploymentContext, at: TopicPartition, committed: int, bounds: OffsetRange
    ) -> _Part:
        record = self._tables[at[1]].records().get(at[0])
        place = max(committed, record.position if record else 0, bounds[0])
        waiting = self._waiting(reader, at, place, bounds[1])
        if record is None and committed == NO_OFFSET:
            # No message is processed yet: the settings are those under which the roots sent them.
            learned = self._settings_of_roots(source)
            task: Task | None = self._make_task(learned, *at) if learned else None
        else:
            part = models_then(self._settings, source, at, record, self._make_task) if record else None
            task = part.task if part else None
        outputs = Outputs()
        if isinstance(task, SubtreeTask):
            outputs.add(task.process(waiting))
        else:
            task = SubtreeTask(self._settings, *at, TaskContext(inputs=source.deployment.partitions))
            outputs.add(task.answer_alone(waiting))
            self._adopt(task, at)
        return _Part(at, task, outputs, committed, max(place, bounds[1]))

    def _settings_of_roots(self, source: DeploymentContext) -> Settings | None:
        """Return the settings under which messages were sent; None where this release rejects them."""
        found = (table.records() for table in self._tables.values())
        roots = (record for records in found for topic, record in records.items() if topic != source.routes)
        record = next(roots, None)
        try:
            return self._settings if record is None else settings_then(self._settings, record.identity)
        except ConfigurationError:
            return None

    def _waiting(self, reader: LogReader, at: TopicPartition, begin: int, end: int) -> list[Record]:
        waiting: list[Record] = []
        if begin < end:
            for _, records in reader.read({at: (begin, end)}):
                more = [record for record in records if not self._comes_again(record)]
                waiting += more
                self._room -= sum(RECORD + len(record.value or b"") for record in more)
                if self._room < 0:
                    raise MismatchError(
                        f"{at[0]}[{at[1]}]: more messages to models below the roots wait than limits.memory = "
                        f"{self._settings.limits.memory} has room for; let workers carry them out first, under the "
                        "settings of before and without further input, or raise it"
                    )
        return waiting

    def _comes_again(self, record: Record) -> bool:
        """Whether the new models process the source record of a message again.

        The message was then sent, but the offset of its record was not committed: at-least-once delivery only.
        """
        operation = self._read(record)
        begin = None if operation is None else self._begins.get((operation.topic, operation.partition))
        if operation is None or begin is None:
            return False
        return operation.source_offset >= begin and self._stream in ("", operation.part.stream)

    def _adopt(self, task: SubtreeTask, at: TopicPartition) -> None:
        """Remove the snapshots of a partition's subtrees, and keep the readable ones to end their clusters."""
        table = self._tables[at[1]]
        for name in table.streams(at[0]):
            task.forget(name)
            with suppress(StateError, MismatchError):
                self._ended.append(SubtreeModel.from_bytes(table.newest(name)[0].body))

    def end(self, is_ended: Callable[[str], bool]) -> None:
        """End the subtrees of some streams."""
        for part in self._parts:
            self._ended += part.task.end_streams(is_ended)

    def report(self, root: Task) -> None:
        """End the clusters of the ended subtrees with those of their roots' previous version, at their next record."""
        models = root.models
        for stream in dict.fromkeys(tree.stream for tree in self._ended if tree.stream in models.names):
            model, own = models.named(stream), [tree for tree in self._ended if tree.stream == stream]
            present = []
            for tree in own:
                texts = StreamTexts(stream, tree.version, tree.engine.depth)
                present += [(one.path, one.id, describe(tree, texts, one)) for one in tree.engine.clusters()]
                model.lifetimes.join(tree.lifetimes)
            present.sort(key=lambda entry: entry[:2])
            model.ended = [*(model.ended or ()), *(emitted for _, _, emitted in present)]
            model.lifetimes.forget_others({cluster["id"] for cluster in model.ended})

    def changes(self, source: DeploymentContext) -> list[Change]:
        """Return the change of each partition of the routes."""
        return [self._change(source, part) for part in self._parts]

    def _change(self, source: DeploymentContext, part: _Part) -> Change:
        task, at = part.task, part.at
        writer = self._tables[at[1]].writer(source.identities[at[0]])
        kinds = ("assignments", "cluster_events")
        outputs = [Batch(self._settings.topic(kind), at[1], some) for kind in kinds if (some := part.outputs.of(kind))]
        if part.outputs.assignments:
            _log.info("%s[%d]: %d records that were on their way are answered", *at, len(part.outputs.assignments))
        change = new_models(source, at, writer, task, part.end, part.was)
        return replace(change, clusters=part.outputs.clusters, outputs=outputs)
