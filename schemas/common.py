"""Parts that several payloads share."""

from typing import TypedDict


class Source(TypedDict):
    """Where the feature record stands in the log.

    Attributes
    ----------
    topic : str
        Input topic.
    partition : int
        Partition of it.
    offset : int
        Offset in that partition.
    """

    topic: str
    partition: int
    offset: int


class Cause(TypedDict):
    """The record that caused an event.

    Attributes
    ----------
    id : str, int, float or None
        What the record calls itself, by ``input.id_path``; None where it has no name.
    source : Source
        Where it stands.
    """

    id: str | int | float | None
    source: Source
