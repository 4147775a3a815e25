"""A name that people gave a cluster, under the cluster's id: ``cluster_name.schema.json``."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict, cast

from resonance.schemas.common import Text, Time

NAME_CHARACTERS: Final = 80
"""Longest name."""


class ClusterName(TypedDict):
    """A name that people gave a cluster, whose id is the key of the message. A tombstone removes it."""

    cluster: Text
    """The cluster."""
    name: Annotated[Text, ("maxLength", NAME_CHARACTERS)]
    """Its name, one line."""
    time: Time
    """When it was given, in UTC."""


def is_name(text: object) -> bool:
    """Return whether a text can be a name: one line, not empty, without blanks at its ends or control characters."""
    return isinstance(text, str) and 0 < len(text) <= NAME_CHARACTERS and text == text.strip() and text.isprintable()


def parse_name(value: bytes | str | Mapping[str, Any]) -> ClusterName | None:
    """Return the value of a message; None for one that no `ClusterName` is."""
    try:
        parsed = json.loads(value) if isinstance(value, bytes | bytearray | str) else value
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, Mapping) or not is_name(parsed.get("name")) or not isinstance(parsed.get("cluster"), str):
        return None
    return cast(ClusterName, parsed)
