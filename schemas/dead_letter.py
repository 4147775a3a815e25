"""What a dead letter says in its headers: ``dead_letter.schema.json``.

A dead letter carries key, value and headers of the original record as they were. Why it is one stands in text headers
``<name>.error.<member>``, whose members, as a JSON object of texts, are described here.
"""

from typing import Annotated, Literal, NotRequired, TypedDict

from resonance.schemas.common import Text

DeadLetterStage = Literal["decode", "validate", "limit", "label"]

DeadLetterClass = Literal[
    "not_json",
    "not_an_object",
    "not_framed",
    "unknown_schema",
    "wrong_schema",
    "schema_violation",
    "too_deep",
    "wrong_type",
    "missing_feature",
    "wrong_dimension",
    "bad_time",
    "record_too_large",
    "too_many_records",
    "no_key",
    "key_too_long",
    "too_many_streams",
    "answer_too_large",
    "out_of_range",
    "too_late",
    "already_labelled",
    "too_many_labels",
    "label_too_long",
    "unknown_stream",
    "too_many_features",
    "name_too_long",
]

Digits = Annotated[str, ("pattern", "^[0-9]+$")]

# "class" is a reserved word: the functional form.
_FaultClass = TypedDict(
    "_FaultClass",
    {"class": Annotated[DeadLetterClass, ("description", "The kind of fault, one word for alerts and queries.")]},
)


class DeadLetter(_FaultClass):
    """What the text headers <name>.error.* of a dead letter say.

    Key, value and other headers are those of the original record.
    """

    topic: str
    """Topic of the original."""
    partition: Digits
    """Its partition."""
    offset: Digits
    """Its offset."""
    index: NotRequired[Digits]
    """Which record of that message it is, from 0, where a message has many: then the value is that record alone."""
    stage: DeadLetterStage
    """What it did not pass."""
    message: str
    """What is wrong and what to do, for people."""
    truncated: NotRequired[str]
    """What was cut because the topic would not take it whole: ``value``, ``headers`` (all of the original's), ``key``;
    joined by commas."""
    length: NotRequired[Digits]
    """Bytes of the whole value, when it was cut."""
    sha256: NotRequired[Annotated[str, ("pattern", "^[0-9a-f]{64}$")]]
    """SHA-256 of the whole value, when it was cut."""
    topic_id: NotRequired[Text]
    """Kafka's id of the topic of the original, which changes when a topic is deleted and made again; absent if the
    broker gives none."""
    version: NotRequired[Digits]
    """Version with which the models of new streams began in that partition when it was written: a lower number than
    that of a later dead letter belongs to a history that was given up."""
    decided_by: NotRequired[Text]
    """The record with which it was decided, where that is a later one, as ``<topic>-<partition>-<offset>``, with
    ``.<index>`` where its message has many: labels had waited for their record until then."""
    routes_offset: NotRequired[Digits]
    """Offset in the routes topic of the record with which it was decided, where that is learned in a second stage."""


def dead_letter_headers(name: str, dead_letter: DeadLetter) -> list[tuple[str, bytes | None]]:
    """Return the text headers of a dead letter.

    Parameters
    ----------
    name : str
        Name of the deployment.
    dead letter : DeadLetter
        What to say.
    """
    return [(f"{name}.error.{member}", str(text).encode()) for member, text in dead_letter.items()]
