"""What a dead letter says in its headers: ``dead_letter.schema.json``.

A dead letter carries key, value and headers of the original record as they were. Why it is one stands in text headers
``<name>.error.<member>``, whose members, as a JSON object of texts, are described here.
"""

from typing import Literal, NotRequired, TypedDict

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

# "class" is a reserved word: the functional form.
DeadLetter = TypedDict(
    "DeadLetter",
    {
        "topic": str,
        "partition": str,
        "offset": str,
        "stage": DeadLetterStage,
        "class": DeadLetterClass,
        "message": str,
        "truncated": NotRequired[str],
        "length": NotRequired[str],
        "sha256": NotRequired[str],
        "topic_id": NotRequired[str],
        "version": NotRequired[str],
        "decided_by": NotRequired[str],
        "routes_offset": NotRequired[str],
    },
)
"""Members of the text headers.

Attributes
----------
topic, partition, offset : str
    Where the original stands.
stage : {"decode", "validate", "limit", "label"}
    What it did not pass.
class : str
    The kind of fault, one word for alerts and queries.
message : str
    What is wrong and what to do, for people.
truncated : str, optional
    What was cut because the topic would not take it whole: ``value``, ``headers`` (all of the original's), ``key``.
length : str, optional
    Bytes of the whole value, when it was cut.
sha256 : str, optional
    SHA-256 of the whole value in hexadecimal digits, when it was cut.
topic_id : str, optional
    Kafka's id of the topic of the original, which changes when a topic is deleted and made again. Not there where the
    broker gives none, nor in dead letters of releases before it was written.
version : str, optional
    Version with which the models of new streams began in that partition when it was written: a number below that of a
    later dead letter belongs to a history that was given up. Not there where an earlier release wrote them.
decided_by : str, optional
    The record with which it was decided, where that is a later one, as ``<topic>-<partition>-<offset>``: labels had
    waited for their record until then.
routes_offset : str, optional
    Offset in the routes topic of the record with which it was decided, where that is learned in a second stage.
"""


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
