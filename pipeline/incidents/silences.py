"""Silences of streams: what seems to have begun in one began with the first record after it."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final, NamedTuple

from resonance.pipeline.timestamps import epoch_ms

MARKED: Final = 8
"""Records of a stream by which a drift may have begun later than it says."""


UNREADABLE: Final = ArithmeticError, AttributeError, LookupError, TypeError, ValueError
"""What reading a message raises that is of no worker."""

Message = tuple[Any, Mapping[str, Any]]
"""The payload of an output, with where it is from."""


class PastSilence(NamedTuple):
    """A time without records of a stream, in seconds."""

    end: float
    """Of the first record after it."""
    begin: float
    """Of the last one before it."""


def ended_by(alert: Mapping[str, Any], cleared: Message | None) -> Message | None:
    """Return the message that cleared an alert, unless that opened again later: times of records may go back."""
    return cleared if cleared and cleared[1]["seq"] >= alert["seq"] else None


def silences_of(opened: Mapping[str, Message], cleared: Mapping[str, Message]) -> dict[str, list[PastSilence]]:
    """Return the silences that are over, of each stream in their order, from the messages of alerts by their keys."""
    found: dict[str, list[PastSilence]] = {}
    for key, (_, alert) in opened.items():
        with suppress(*UNREADABLE):  # It is of no worker.
            if alert["rule"] == "silent" and (ended := ended_by(alert, cleared.get(key))):
                begin = epoch_ms(alert["since"]) / 1000 - alert["evidence"]["seconds"]
                end = begin + ended[1]["evidence"]["seconds"]
                found.setdefault(alert["stream"], []).append(PastSilence(end, begin))
    return {stream: sorted(own) for stream, own in found.items()}


def heard(onset: float, time: float, silences: Sequence[PastSilence], slack: float = 0.0) -> float:
    """Return when a sign of a time began: where its stream was silent then, the first record after that.

    The silences come in their order; one does not begin before the one before it ends.
    """
    for end, begin in silences[(at := bisect_right(silences, (onset, inf))) : at + 1]:
        if begin - slack < onset and end <= time:
            return end
    return onset
