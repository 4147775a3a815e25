"""What fits into one message: what a record may add to its outputs, and what an event needs.

A topic refuses a message that is longer than its ``max.message.bytes``, and the worker could then never go on. What a
record adds is bounded here and not by the topic, because which records are learned must be a function of the log. What
the features add is known before the first event.
"""

from collections.abc import Sequence
from typing import Final

import orjson
from resonance.engine.prepare.sparse import NAME_BYTES
from resonance.engine.sparse import SparseEngine
from resonance.pipeline.columns import Texts
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.encode.cluster_description import CENTRE_BYTES, NUMBER_BYTES, salient_bytes
from resonance.pipeline.task.model.stream_model import StreamModel

CAUSE_BYTES: Final = 200_000
"""Bytes that the id and the key of a record may add to an event that it causes."""

ANSWER_BYTES: Final = 900_000
"""Bytes that a record may add to its assignment, copied members included; a topic takes 1,048,588 by default."""

EVENT_BYTES: Final = 1_000_000
"""Bytes of a message that a topic of events certainly takes, for a topic whose limit is not known."""

NAMED: Final = 40
"""How often the bytes of a key can occur in an output where it names a stream: three for each byte in every id."""

DESCRIBED: Final = 3
"""Most clusters that an event describes: two before and one after, or one before and two after."""

UNITS_BYTES: Final = 50_000
"""Bytes of the units that a drift event lists, but for its first one and the names of the features."""

_FRAME = 10_000


def too_long(batch: RecordBatch, *, keyed: bool) -> dict[int, FaultError]:
    """Return the faults of records whose outputs could be too long, by position; if `keyed`, keys name the streams."""
    routed = batch.sources is not None
    weight = NAMED if keyed and not routed else 1
    keys = batch.keys.longest()
    if routed:
        # The record's key occurs once; the key of its stream occurs in the names.
        keys += NAMED * max(map(len, filter(None, batch.streams)), default=0)
    ids = 0 if batch.ids is None else Texts.of(batch.ids).longest()
    # A character has at most four bytes.
    members = 4 * max(map(len, batch.included or ()), default=0)
    if weight * keys + ids + members <= CAUSE_BYTES:
        return {}
    faults = {}
    for position, key in enumerate(batch.keys):
        cause = weight * len(key or b"") + (len(batch.ids[position]) if batch.ids else 0)
        if routed:
            cause += NAMED * len(batch.streams[position] or b"")
        copied = len(batch.included[position].encode()) if batch.included else 0
        if cause > CAUSE_BYTES:
            problem = f"its key and its id bring {cause:,} bytes into each output, {CAUSE_BYTES:,} are allowed"
            faults[position] = FaultError("limit", "answer_too_large", f"{problem}; send a shorter key or id")
        elif cause + copied > ANSWER_BYTES:
            problem = f"its answer would have {cause + copied:,} bytes of its own, {ANSWER_BYTES:,} are allowed"
            faults[position] = FaultError("limit", "answer_too_large", f"{problem}; copy less (output.include)")
    return faults


def event_bytes(columns: Sequence[str]) -> int:
    """Return the size of the largest event about clusters with these columns."""
    # Centre and spread have each name with colon, number and comma.
    cluster = 2 * sum(len(orjson.dumps(name)) + NUMBER_BYTES + 2 for name in columns)
    return _FRAME + CAUSE_BYTES + DESCRIBED * cluster


def event_bytes_of(model: StreamModel) -> int:
    """Return the size of the largest event about clusters of a model."""
    columns = model.preparation.columns
    if not columns:
        return event_bytes(()) + DESCRIBED * (CENTRE_BYTES + salient_bytes(NAME_BYTES))
    # Only engines that weigh features name the most salient ones; all of these engines take sparse records.
    weighs = isinstance(model.engine, SparseEngine)
    longest = max(len(orjson.dumps(name)) for name in columns)
    return event_bytes(columns) + (DESCRIBED * salient_bytes(longest) if weighs else 0)


def _drift_bytes_of(model: StreamModel) -> int:
    """Return the size of the largest drift event of a model: of any unit, and of the event, it names few features."""
    if model.drift is None:
        return 0
    longest = max((len(orjson.dumps(name)) for name in model.preparation.columns or ()), default=0)
    return _FRAME + CAUSE_BYTES + UNITS_BYTES + 6 * longest


def check_events(model: StreamModel, topics: Sequence[str], taken: int, where: str) -> None:
    """Refuse features with which an event could be longer than the `taken` bytes of a message in its topics.

    Raises `ConfigurationError`, which names the input partition `where`, the topics and the size that they must take.
    """
    needed = max(event_bytes_of(model), _drift_bytes_of(model))
    if needed <= taken:
        return
    what, instead = "sparse features", ""
    if columns := model.preparation.columns:
        what = f"{len(columns):,} features"
        instead = ", or use fewer features (input.features)"
    raise ConfigurationError(
        f"{where}: an event that describes clusters of {what} can have {needed:,} bytes, topics "
        f"{' and '.join(topics)} take {taken:,}; raise both (kafka-configs.sh --alter --entity-type topics "
        f"--entity-name {topics[0]} --add-config max.message.bytes={needed}){instead}"
    )
