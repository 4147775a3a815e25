"""Models that come from elsewhere are loaded before they are written, as the next start will load them.

That start would find nothing else there any more; and a file can say anything, with checksums that fit.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress

from resonance.engine.errors import StateError
from resonance.engine.state import unpack
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.recovery.rewrite import is_stream_of
from resonance.pipeline.task.model.stream_model import KIND, STATE_REVISION
from resonance.pipeline.tasks import MakeTask


def check_models(
    source: DeploymentContext,
    at: TopicPartition,
    state: bytes,
    snapshots: Sequence[StreamSnapshot],
    make_task: MakeTask,
) -> int:
    """Load models that are to be written.

    Parameters
    ----------
    source : DeploymentContext
        The deployment.
    at : (topic, partition)
        An input partition of it.
    state : bytes
        What the partition knows beside its streams.
    snapshots : sequence of StreamSnapshot
        Of streams of it.
    make_task : callable
        Makes an empty task for an input partition.

    Returns
    -------
    int
        Version of the models of streams that are new behind it.

    Raises
    ------
    MismatchError
        It cannot be loaded, or says of itself what is not so.
    """
    where = f"{at[0]}[{at[1]}]"
    task = make_task(*at)
    task.event_bytes = source.event_bytes
    task.restore_partition(state)
    for snapshot in snapshots:
        name, header = snapshot.stream, snapshot.header
        if not is_stream_of(source, at, name):
            raise MismatchError(f"{where}: stream {name} is none of this partition")
        try:
            _check_size(snapshot)
            task.restore(snapshot)
            model = task.model(name)
            stands = (model.next, model.version, list(model.preparation.features))
            fits = stands == (snapshot.next, header["version"], header["features"])
        except (*UNREADABLE, AttributeError, IndexError, ArithmeticError, MemoryError) as error:
            raise MismatchError(f"{where}: the state of stream {name} cannot be loaded ({error!r})") from None
        if not fits:
            raise MismatchError(f"{where}: the state of stream {name} is not the one that it is said to be")
    return task.first_version


def _check_size(snapshot: StreamSnapshot) -> None:
    """Raise ValueError where an engine would make room for more than the state can hold, before it does."""
    with suppress(StateError):
        # Whatever else is wrong with it is told where it is loaded.
        _, parts = unpack(snapshot.body, KIND, STATE_REVISION)
        header, _ = unpack(parts["engine"].tobytes(), str(snapshot.header["engine"]), sys.maxsize)
        if header["parameters"] != snapshot.header["parameters"]:
            raise ValueError("the parameters are others than it is said")
        # Sparse states hold the features that clusters have, not all that there are.
        most = max(len(snapshot.body), header["parameters"].get("max_features", 0))
        if not 0 <= header["dimension"] <= most:
            raise ValueError(f"a dimension of {header['dimension']}")
