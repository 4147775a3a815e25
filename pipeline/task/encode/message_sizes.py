"""What fits into one message: what a record may add to its outputs, and what an event needs.

A topic refuses a message that is longer than its ``max.message.bytes``, and the worker could then never go on. What a
record brings with it is bounded here and not by the topic, because which records are learned must be a function of
the log; what the features bring is known before the first event.
"""

from collections.abc import Sequence
from typing import Final

import orjson
from resonance.engine.sparse import SparseEngine
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.encode.cluster_description import CENTRE_BYTES, NUMBER_BYTES, salient_bytes
from resonance.pipeline.task.encode.origins import Origins
from resonance.pipeline.task.model.sparse_preparation import NAME_BYTES, SparsePreparation
from resonance.pipeline.task.model.stream_model import StreamModel

CAUSE_BYTES: Final = 200_000
"""Bytes that a record may add to an event that it causes: its id, and its key."""

ANSWER_BYTES: Final = 900_000
"""Bytes that a record may add to its answer, members that are copied included; a topic takes 1,048,588 by default."""

EVENT_BYTES: Final = 1_000_000
"""What a topic of events takes for certain, where it is not known."""

NAMED: Final = 40
"""How often the bytes of a key can stand in an output where it names a stream: three for each byte in every id."""

DESCRIBED: Final = 3
"""Clusters that an event describes at most: two before and one after, or one before and two after."""

_FRAME = 10_000


def too_long(origins: Origins, *, keyed: bool) -> dict[int, FaultError]:
    """Return which records' outputs could be too long, by position, and why.

    Parameters
    ----------
    origins : Origins
        The records.
    keyed : bool
        A key names its record's stream.
    """
    routed = origins.sources is not None
    weight = NAMED if keyed and not routed else 1
    keys = max(map(len, filter(None, origins.keys)), default=0)
    if routed:
        # The keys stand there once, those of the streams in the names.
        keys += NAMED * max(map(len, filter(None, origins.streams)), default=0)
    ids = max(map(len, origins.ids or ()), default=0)
    # A character has four bytes at most.
    members = 4 * max(map(len, origins.included or ()), default=0)
    if weight * keys + ids + members <= CAUSE_BYTES:
        return {}
    faults = {}
    for position, key in enumerate(origins.keys):
        cause = weight * len(key or b"") + (len(origins.ids[position]) if origins.ids else 0)
        if routed:
            cause += NAMED * len(origins.streams[position] or b"")
        copied = len(origins.included[position].encode()) if origins.included else 0
        if cause > CAUSE_BYTES:
            problem = f"its key and its id bring {cause:,} bytes into each output, {CAUSE_BYTES:,} are allowed"
            faults[position] = FaultError("limit", "answer_too_large", f"{problem}; send a shorter key or id")
        elif cause + copied > ANSWER_BYTES:
            problem = f"its answer would have {cause + copied:,} bytes of its own, {ANSWER_BYTES:,} are allowed"
            faults[position] = FaultError("limit", "answer_too_large", f"{problem}; copy less (output.include)")
    return faults


def event_bytes(columns: Sequence[str]) -> int:
    """Return the largest size of an event about clusters with these columns."""
    # Centre and spread: each name with colon, number and comma.
    cluster = 2 * sum(len(orjson.dumps(name)) + NUMBER_BYTES + 2 for name in columns)
    return _FRAME + CAUSE_BYTES + DESCRIBED * cluster


def event_bytes_of(model: StreamModel) -> int:
    """Return the largest size of an event about clusters of a model."""
    if isinstance(model.preparation, SparsePreparation):
        return event_bytes(()) + DESCRIBED * (CENTRE_BYTES + salient_bytes(NAME_BYTES))
    columns = model.preparation.columns
    # Only engines that weigh features, all of which take sparse records, name the most salient ones.
    weighs = isinstance(model.engine, SparseEngine)
    longest = max(len(orjson.dumps(name)) for name in columns)
    return event_bytes(columns) + (DESCRIBED * salient_bytes(longest) if weighs else 0)


def check_events(model: StreamModel, topics: Sequence[str], taken: int, where: str) -> None:
    """Refuse features with which an event could be longer than its topic takes.

    Parameters
    ----------
    model : StreamModel
        Whose clusters are described.
    topics : sequence of str
        Topics of the events and of the clusters.
    taken : int
        Bytes of a message that both take.
    where : str
        The input partition.

    Raises
    ------
    ConfigurationError
        Naming the topics and the size that they must take.
    """
    needed = event_bytes_of(model)
    if needed <= taken:
        return
    what, instead = "sparse features", ""
    if not isinstance(model.preparation, SparsePreparation):
        what = f"{len(model.preparation.columns):,} features"
        instead = ", or use fewer features (input.features)"
    raise ConfigurationError(
        f"{where}: an event that describes clusters of {what} can have {needed:,} bytes, topics "
        f"{' and '.join(topics)} take {taken:,}; raise both (kafka-configs.sh --alter --entity-type topics "
        f"--entity-name {topics[0]} --add-config max.message.bytes={needed}){instead}"
    )
