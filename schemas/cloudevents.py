"""CloudEvents 1.0 in Kafka's binary mode: the attributes travel as headers, the value is the data."""

from collections.abc import Iterable
from typing import Literal

from resonance.schemas.files import SchemaName, schema_id

Header = tuple[str, bytes | None]
Envelope = Literal["events", "cloudevents", "plain"]

SPECVERSION = "1.0"
ATTRIBUTES = frozenset(("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_dataschema"))
"""Names of the headers."""


class CloudEvents:
    """Headers of the messages of one kind from one source.

    Parameters
    ----------
    schema : str
        Schema of the value; gives ``ce_type`` and ``ce_dataschema``.
    source : str
        ``ce_source``, a URI reference: together with ``ce_id`` it names a message.

    Attributes
    ----------
    shared : tuple of (str, bytes)
        The headers that are the same for every message.
    """

    __slots__ = ("shared",)

    def __init__(self, schema: SchemaName, source: str) -> None:
        self.shared: tuple[Header, ...] = (
            ("ce_specversion", SPECVERSION.encode()),
            ("ce_type", f"resonance.{schema}.v1".encode()),
            ("ce_source", source.encode()),
            ("ce_dataschema", schema_id(schema).encode()),
        )

    def headers(self, event_id: str, time: str) -> list[Header]:
        """Return the headers of one message.

        Parameters
        ----------
        event_id : str
            ``ce_id``.
        time : str
            ``ce_time``, RFC 3339.
        """
        return [("ce_id", event_id.encode()), ("ce_time", time.encode()), *self.shared]


def source_uri(name: str, topic: str, partition: int) -> str:
    """Return the ``ce_source`` of everything that comes from one input partition of a deployment."""
    return f"/resonance/{name}/{topic}/{partition}"


def without_envelope(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return the headers that are no attributes of CloudEvents.

    A deployment whose `output.envelope` changes can write an output again with other attributes than before, or without
    any: what remains is the same.
    """
    return tuple((name, value) for name, value in headers if name not in ATTRIBUTES)
