"""Dates with the English name of their month: the form, as of `strptime`, is read off the text itself."""

import re
from typing import Final

from resonance.pipeline.timestamps import COMMENT

_NO_ZONE: Final = r"(?<![0-9+])(?<![:.][0-9]{2}-)(?<![:.][0-9]{2} -)(?<![SMF]-)(?<![SMF] -)(?<![TC]-)"
"""What is not before a time: the digits, or the sign of a distance from UTC, which a time is before."""

_PARTS: Final = (
    (r"(mon|tues|wednes|thurs|fri|satur|sun)day", "%A"),
    (r"mon|tue|wed|thu|fri|sat|sun", "%a"),
    (r"january|february|march|april|june|july|august|september|october|november|december", "%B"),
    (r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec", "%b"),
    (_NO_ZONE + r"[0-9]{1,2}([:.])[0-9]{2}\1[0-9]{2}([.,:])[0-9]{1,6}(?![0-9])", r"%H\1%M\1%S\2%f"),
    (_NO_ZONE + r"[0-9]{1,2}([:.])[0-9]{2}\1[0-9]{2}(?![0-9])", r"%H\1%M\1%S"),
    (_NO_ZONE + r"[0-9]{1,2}([:.])[0-9]{2}(?![0-9])", r"%H\1%M"),
    (r"%H(\W%M[^ ]*\s*)[ap]m", r"%I\1%p"),
    (r"(%[MSfp]\s*(GMT|UTC)?)([+-][0-9]{2}:?[0-9]{2}|Z\b)", r"\1%z"),
    (r"[0-9]{4}", "%Y"),
    (r"[0-9]{1,2}", "%d"),
    (r"\s+", " "),
)
_FORM: Final = re.compile(r"(?i)(%[abdyhimsfpz]|GMT|UTC|\bat\b|T(?=%[HI])|[] ,./:[-])+")


def form_of(text: str) -> str | None:
    """Return the form of a date, or of a date and a time, with the name of a month; None for any other text."""
    form = COMMENT.sub("", text).strip()
    for part, directive in _PARTS:
        form = re.sub(f"(?i:{part})", directive, form)
    if "%Y" not in form:
        form = "%y".join(form.rsplit("%d", 1))  # The year is behind the day.
    parts = "".join(re.findall("%(.)", form)).lower()
    is_date = all(parts.count(part) == 1 for part in "bdy") and parts.count("m") < 2 and "%" not in text
    return form if is_date and _FORM.fullmatch(form) else None
