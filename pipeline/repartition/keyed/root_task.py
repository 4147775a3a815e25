"""The first hop of a keyed hierarchy: the roots of one input partition."""

from collections.abc import Sequence

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.repartition.keyed.operation_writer import OperationWriter
from resonance.pipeline.repartition.keyed.subtree_model import SubtreeModel
from resonance.pipeline.task.encode.assignments import StreamTexts, describe
from resonance.pipeline.task.partition_task import PartitionTask


class RootTask(PartitionTask):
    """A partition task whose models are roots: what is below them is asked for on the routes, and answers come there.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    topic : str
        Input topic.
    partition : int
        Partition of it.
    routes : int
        Partitions of the topic of the routes.
    """

    def __init__(self, settings: Settings, topic: str, partition: int, routes: int) -> None:
        super().__init__(settings, topic, partition)
        if routes:
            self._send_by(OperationWriter(settings, topic, partition, routes))

    def end_below(self, trees: Sequence[SubtreeModel]) -> None:
        """Let the clusters of subtrees end with those of the version before, where a stream of them began another."""
        for stream in dict.fromkeys(tree.stream for tree in trees if tree.stream in self.streams):
            model, own = self._streams.named(stream), [tree for tree in trees if tree.stream == stream]
            present = []
            for tree in own:
                texts = StreamTexts(stream, tree.version, tree.engine.depth)
                present += [(one.path, one.id, describe(tree, texts, one)) for one in tree.engine.clusters()]
                model.lifetimes.join(tree.lifetimes)
            present.sort(key=lambda entry: entry[:2])
            model.ended = [*(model.ended or ()), *(told for _, _, told in present)]
            model.lifetimes.forget_others({cluster["id"] for cluster in model.ended})
