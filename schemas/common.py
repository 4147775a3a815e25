"""Parts that several payloads share.

A pair behind a type, such as ``("minimum", 0)``, is a keyword of its JSON Schema and the value there. The schemas are
made from these types and the text behind each member by ``python -m tests.json_schemas``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

Text = Annotated[str, ("minLength", 1)]
Count = Annotated[int, ("minimum", 0)]
Natural = Annotated[int, ("minimum", 1)]
Share = Annotated[float, ("minimum", 0), ("maximum", 1)]
Time = Annotated[
    str,
    ("format", "date-time"),
    ("pattern", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"),
]
"""RFC 3339 in UTC."""

StreamId = Annotated[
    Text,
    (
        "description",
        "The stream: p<partition>, or p<partition>:<key, percent-encoded>; <topic>. in front when the deployment reads "
        "several.",
    ),
]
ModelVersion = Annotated[Natural, ("description", "Version of the stream's model.")]
Level = Annotated[Natural, ("description", "Level of the hierarchy, 1 = root.")]
RecordId = Annotated[
    str | int | float | None,
    ("description", "What the record calls itself, by input.id_path; null where it has no name."),
]


class Source(TypedDict):
    """Where a record stands in the log."""

    topic: Text
    """Input topic."""
    partition: Count
    """Partition of it."""
    offset: Count
    """Offset in that partition."""
    index: NotRequired[Count]
    """Which record of its message it is, from 0, where a message has many (``input.records``)."""


def place_of(topic: str, partition: int, offset: int, index: int | None = None) -> Source:
    """Return where a record stands."""
    place: Source = {"topic": topic, "partition": partition, "offset": offset}
    if index is not None:
        place["index"] = index
    return place


def offset_text(offset: int, index: int | None) -> str:
    """Return the place of a record in its partition as text: ``42``, ``42.3`` for one of several in a message."""
    return str(offset) if index is None else f"{offset}.{index}"


def place_text(source: Mapping[str, Any]) -> str:
    """Return where a record stands as text: ``orders[0]@42``, ``orders[0]@42.3`` for one of several in a message."""
    return f"{source['topic']}[{source['partition']}]@{offset_text(source['offset'], source.get('index'))}"


class Cause(TypedDict):
    """The record that caused an event."""

    id: RecordId
    source: Source
    """Where it stands."""
