"""What stands on the topic of the routes where the models below a root live elsewhere.

A message goes from the root of a stream to the subtree of one of its nodes, because of one record. Several follow one
another where a record asks several subtrees for something, or one for more than a message holds.

=======================  ==========================================================================================
key                      the subtree: ``<stream>/<version>/<root node>``
value                    a JSON object, see `Ask`
header resonance.source  ``[topic, partition, offset]`` of the record, as JSON
header resonance.key     the record's own key
header traceparent       the record's own, where it has one
=======================  ==========================================================================================

The order of a partition of this topic is the order in which its subtrees learn.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import RoutedRecord, SourceRecord
from resonance.pipeline.routing.route_records import KEY, REST_BYTES, SOURCE

VECTORS_BYTES: Final = 100_000
"""Bytes of vectors in one message, unless one alone is longer."""

LEAST_BYTES: Final = 1_000_000
"""What a message may have at least; beside the vectors it has room for what goes into the answer."""

NAN: Final = float("nan")

NUMBER_BYTES: Final = 26
"""Longest float64 as JSON, with its comma."""


class Answer(NamedTuple):
    """What the root answered to a record.

    Attributes
    ----------
    cluster : int
        Its cluster on the first level, -1 for none.
    score : float
        As `Step.score`; NaN for none.
    novel : bool
        It founded a node.
    """

    cluster: int
    score: float
    novel: bool


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """What a subtree is asked for because of one record.

    Attributes
    ----------
    stream : str
        Name of the stream.
    version : int
        Version of its model.
    node : int
        The root node whose subtree it is.
    number : int or None
        How many messages the subtree had before this one; None while there is none: the record is only answered.
    time : str
        The record's time.
    id : bytes or None
        The record's own id as JSON, where ``input.id_path`` is set.
    included : str or None
        Copied members as a JSON object, where ``output.include`` is set.
    answer : Answer or None
        The record is answered here.
    vectors : sequence of sequence of float
        What is learned, in order: k vectors of d numbers.
    labels : sequence of int
        Their classes, -1 for none.
    answered : int
        Position of the vector that is the answered record itself, -1 for none.
    removed : bool
        After these vectors the node is gone and the subtree with it.
    preparation : bytes or None
        What turns vectors back into the units of the input; the first message of a subtree has it, and no vectors.
    """

    stream: str
    version: int
    node: int
    number: int | None
    time: str
    id: bytes | None
    included: str | None
    answer: Answer | None
    vectors: Sequence[Sequence[float]]
    labels: Sequence[int]
    answered: int
    removed: bool
    preparation: bytes | None


class AskRoute(NamedTuple):
    """A message that was read: the record that caused it, placed where the message stands, and what is asked."""

    record: RoutedRecord
    ask: Ask


def ask_bytes(settings: Settings) -> int:
    """Return what the topic of the routes takes in one message."""
    return max(settings.limits.record_bytes, LEAST_BYTES) + REST_BYTES


def part_name(stream: str, version: int, node: int) -> str:
    """Return the name of a subtree, unique in the deployment."""
    return f"{stream}/{version}/{node}"


def read_ask(record: SourceRecord) -> AskRoute | None:
    """Return what stands in a message; None where another program wrote it."""
    headers = record.headers
    try:
        (first, source), (second, key) = headers[0], headers[1]
        topic, partition, offset = orjson.loads(source or b"")
        content = orjson.loads(record.value or b"")
        ask = _ask_of(content)
    except (IndexError, TypeError, ValueError, KeyError, AttributeError):
        return None
    if (first, second) != (SOURCE, KEY) or record.key is None or type(topic) is not str:
        return None
    if not (type(partition) is type(offset) is int):
        return None
    if record.key != part_name(ask.stream, ask.version, ask.node).encode():
        return None
    value = record.value or b""
    routed = RoutedRecord(
        topic, partition, record.offset, record.timestamp, key, value, headers[2:], record.key, offset
    )
    return AskRoute(routed, ask)


def _ask_of(content: dict[str, Any]) -> Ask:
    number, answer, included = content["number"], content.get("answer"), content.get("include")
    vectors = content.get("vectors", ())
    if len(vectors) > 1 and len(set(map(len, vectors))) > 1:
        raise ValueError("vectors of different lengths")
    if answer is not None:
        cluster, score, novel = answer
        answer = Answer(int(cluster), NAN if score is None else float(score), bool(novel))
    preparation = content.get("preparation")
    return Ask(
        stream=str(content["stream"]),
        version=int(content["version"]),
        node=int(content["node"]),
        number=None if number is None else int(number),
        time=str(content["time"]),
        id=orjson.dumps(content["id"]) if "id" in content else None,
        included=None if included is None else orjson.dumps(included).decode(),
        answer=answer,
        vectors=vectors,
        labels=[int(label) for label in content["labels"]] if "labels" in content else [-1] * len(vectors),
        answered=int(content.get("answered", -1)),
        removed=bool(content.get("removed", False)),
        preparation=None if preparation is None else _decoded(preparation),
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
