"""What may stand behind the question mark of the page's addresses, and what each value must be."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from resonance.pipeline.errors import ResonanceError
from resonance.pipeline.text.times import FIRST, LAST
from resonance.pipeline.timestamps import is_canonical

LARGEST: Final = 2**53 - 1
"""Largest number that a browser counts to."""

SHOWN: Final = 60
"""Characters of a refused value that are repeated."""


class QueryError(ResonanceError):
    """An address has a value that cannot be used; the text says which, and what is allowed."""


class Parameter(NamedTuple):
    """A value of an address."""

    read: Callable[[str], Any]
    """Returns the value; a `ValueError` refuses it."""
    allowed: str
    default: Any


def text() -> Parameter:
    """Return a parameter that is any text."""
    return Parameter(_unicode, "must be text in UTF-8", "")


def number(default: int | None, low: int = 0, high: int = LARGEST) -> Parameter:
    """Return a parameter that is an integer of a range."""

    def read(given: str) -> int:
        # Python's own int takes other digits and signs, and refuses long ones with other words.
        if not re.fullmatch("-?[0-9]{1,16}", given) or not low <= int(given) <= high:
            raise ValueError
        return int(given)

    return Parameter(read, f"must be an integer from {low:,} to {high:,}", default)


def choice(default: str, choices: Collection[str]) -> Parameter:
    """Return a parameter that is one of some words."""

    def read(given: str) -> str:
        if given not in choices:
            raise ValueError
        return given

    return Parameter(read, f"must be one of {', '.join(choices)}", default)


def several(choices: Collection[str] = ()) -> Parameter:
    """Return a parameter that is some words with commas between them; any without `choices`."""

    def read(given: str) -> list[str]:
        words = [word for word in _unicode(given).split(",") if word]
        if choices and not set(words).issubset(choices):
            raise ValueError
        return words

    return Parameter(read, f"must be {', '.join(choices) or 'words'}, with commas between several", ())


def moment() -> Parameter:
    """Return a parameter that is a time in milliseconds since 1970."""
    return number(None, FIRST, LAST)


def time_text() -> Parameter:
    """Return a parameter that is a time as outputs have it."""

    def read(given: str) -> str:
        if not is_canonical(given):
            raise ValueError
        return given

    return Parameter(read, "must be a time such as 2026-01-31T12:00:00.000Z", "")


def values(query: Mapping[str, str], known: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the value of every known parameter; an empty one counts as not given. Raises `QueryError`."""
    if unknown := [name for name in query if name not in known]:
        allowed = f"it can have {', '.join(known)}" if known else "it has none"
        raise QueryError(f"{shown(unknown[0])}: this address has no such parameter; {allowed}")
    found = {}
    for name, parameter in known.items():
        given = query.get(name, "")
        try:
            found[name] = parameter.read(given) if given else parameter.default
        except ValueError:
            raise QueryError(f"{name} = {shown(given)}: {parameter.allowed}") from None
    return found


def shown(given: str) -> str:
    """Return a part of an address for a message, where it may be anything."""
    return ascii(given if len(given) <= SHOWN else f"{given[:SHOWN]}...")


def _unicode(given: str) -> str:
    # A byte that is no UTF-8 would fail only where an answer repeats it; the error is a ValueError.
    given.encode()
    return given
