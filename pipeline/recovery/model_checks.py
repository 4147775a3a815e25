"""Load models from outside the deployment before they are written, as the next start will load them.

After the write that start has no other models to return to, and a file can claim anything with valid checksums.
"""

from resonance.pipeline.checkpoint.changelog_records import UNREADABLE
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.recovery.rewrite import is_stream_of
from resonance.pipeline.tasks import MakeTask, Task


def check_models(source: DeploymentContext, checkpoint: PartitionCheckpoint, make_task: MakeTask) -> Task:
    """Load the models that are to be written, and return a task with them.

    Raises `MismatchError` where a model cannot be loaded or contradicts its own header.
    """
    at = checkpoint.at
    where = f"{at[0]}[{at[1]}]"
    task = make_task(*at)
    task.restore_partition(checkpoint.record.state)
    for snapshot in checkpoint.streams:
        name, header = snapshot.stream, snapshot.header
        if not is_stream_of(source, at, name):
            raise MismatchError(f"{where}: stream {name} is none of this partition")
        try:
            task.restore(snapshot)
            model = task.models.named(name)
            stands = (model.next, model.version, list(model.preparation.features))
            fits = stands == (snapshot.next, header["version"], header["features"])
        except (*UNREADABLE, AttributeError, IndexError, ArithmeticError, MemoryError) as error:
            raise MismatchError(f"{where}: the state of stream {name} cannot be loaded ({error!r})") from None
        if not fits:
            raise MismatchError(f"{where}: the state of stream {name} contradicts its header")
    return task
