"""The first hop of a keyed hierarchy: the roots of one input partition."""

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.partition import PartitionTask
from resonance.pipeline.routing.sender import Sender


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
            self._send_by(Sender(settings, topic, partition, routes))
