"""First stage of a keyed hierarchy: the roots of one input partition."""

from collections.abc import Sequence

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.repartition.keyed.operation_writer import OperationWriter
from resonance.pipeline.repartition.keyed.subtree_model import SubtreeModel
from resonance.pipeline.task.encode.assignments import StreamTexts, describe
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.stream_task import NO_CONTEXT, TaskContext


class RootTask(PartitionTask):
    """Partition task whose models are roots; the levels below learn from the routes, where assignments are emitted.

    Parameters
    ----------
    routes : int
        Number of partitions of the routes topic; 0 where nothing is sent there.
    """

    def __init__(
        self, settings: Settings, topic: str, partition: int, routes: int, context: TaskContext = NO_CONTEXT
    ) -> None:
        super().__init__(settings, topic, partition, context)
        if routes:
            self._send_by(OperationWriter(settings, topic, partition, routes))

    def end_below(self, trees: Sequence[SubtreeModel]) -> None:
        """End the clusters of subtrees with those of the previous version, for each stream that began a new one."""
        for stream in dict.fromkeys(tree.stream for tree in trees if tree.stream in self.streams):
            model, own = self._streams.named(stream), [tree for tree in trees if tree.stream == stream]
            present = []
            for tree in own:
                texts = StreamTexts(stream, tree.version, tree.engine.depth)
                present += [(one.path, one.id, describe(tree, texts, one)) for one in tree.engine.clusters()]
                model.lifetimes.join(tree.lifetimes)
            present.sort(key=lambda entry: entry[:2])
            model.ended = [*(model.ended or ()), *(emitted for _, _, emitted in present)]
            model.lifetimes.forget_others({cluster["id"] for cluster in model.ended})
