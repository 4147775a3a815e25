"""Record times as RFC 3339 text in UTC with milliseconds, from Kafka timestamps and from members of the input."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from resonance.pipeline.text.times import FIRST, LAST

CACHED = 50_000
"""Number of texts that are kept; records of one batch share most of theirs."""

SECONDS = "%s"
"""Form of times that are seconds since 1970."""

COMMENT = re.compile(r"\s*\([^()]*\)$")
"""What mails and browsers write behind a time, such as ``(CET)``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)

_CANONICAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


class TimeTexts(dict[Any, str]):
    """Cache of the texts of times: ``texts[value]``.

    A key is milliseconds since 1970, as an integer or a float, or RFC 3339 text; a number or text that is no time is a
    `ValueError`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seconds: dict[int, str] = {}

    def __missing__(self, value: Any) -> str:
        if len(self) >= CACHED:
            self.clear()
        text = self._from_text(value) if isinstance(value, str) else self._from_milliseconds(value)
        self[value] = text
        return text

    def _from_milliseconds(self, value: float) -> str:
        if not FIRST <= value <= LAST:
            raise ValueError(f"{value!r} is no time in milliseconds between the years 1 and 9999")
        milliseconds = int(value // 1)
        # Kafka's -1 means no timestamp and becomes 1970.
        if milliseconds == -1:
            milliseconds = 0
        second, rest = divmod(milliseconds, 1000)
        prefix = self._seconds.get(second)
        if prefix is None:
            if len(self._seconds) >= CACHED:
                self._seconds.clear()
            prefix = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=None).isoformat()
            self._seconds[second] = prefix
        return f"{prefix}.{rest:03d}Z"

    def _from_text(self, value: str) -> str:
        match = _RFC3339.fullmatch(value)
        if match is None:
            raise ValueError(f"{value[:100]!r} is no RFC 3339 time such as 2026-01-31T12:00:00Z")
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        fraction, sign, ahead_hours, ahead_minutes = match.groups()[6:]
        try:
            # A leap second (60) is the same instant as the start of the next minute.
            leap = second == 60
            moment = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=UTC)
            if sign:
                ahead = timedelta(hours=int(ahead_hours), minutes=int(ahead_minutes))
                if int(ahead_hours) > 23 or int(ahead_minutes) > 59:
                    raise ValueError("offset")
                moment = moment - ahead if sign == "+" else moment + ahead
            if leap:
                moment += timedelta(seconds=1)
        except (ValueError, OverflowError):
            raise ValueError(f"{value[:100]!r} is no time that the calendar has between the years 1 and 9999") from None
        milliseconds = "000" if leap else ((fraction or "") + "000")[:3]
        return f"{moment.replace(tzinfo=None).isoformat()}.{milliseconds}Z"


def milliseconds(value: Any, form: str | None = None) -> int | None:
    """Return a time of a file as a Kafka timestamp, or None where there is no time.

    A time is milliseconds since 1970, or ISO 8601 text in UTC unless it names a zone; with `form` it is text of that
    form (as of `strptime`), or with the form ``%s`` seconds since 1970. Numbers beyond the year 9999 are microseconds
    or nanoseconds. Any other value but None and empty text is a `ValueError`.
    """
    if value is None or value == "":
        return None
    if form is not None:
        value = _of_form(value, form)
    elif isinstance(value, str) and value.isdecimal() and len(value) in range(13, 20):
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        while LAST < value <= 1_000_000 * LAST:
            value //= 1000
        if 0 <= value <= LAST:
            return int(value)
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            pass
        else:
            return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
    raise ValueError(
        f"{str(value)[:60]!r} is no time; it must be text such as 2026-01-31T12:00:00Z, or milliseconds since 1970, or "
        "--time-form must name its form, such as '%d/%m/%Y %H:%M'"
    )


def timestamp_of(values: Sequence[Any], form: str | None) -> int | None:
    """Return `milliseconds` of one value, or of several texts joined by spaces; None where one is missing."""
    if len(values) == 1:
        return milliseconds(values[0], form)
    if any(value is None or value == "" for value in values):
        return None
    return milliseconds(" ".join(str(value).strip() for value in values), form) if values else None


def _of_form(value: Any, form: str) -> Any:
    """Return a time of another form in one of the usual ones."""
    try:
        if form == SECONDS:
            return float(value) * 1000
        # Of numbers such as 20260131.
        text = str(value).strip()
        return datetime.strptime(text if ")" in form else COMMENT.sub("", text), form).isoformat()
    except (ValueError, TypeError):
        raise ValueError(f"{str(value)[:60]!r} is no time of the form {form}") from None


def canonical(value: Any) -> str:
    """Return a time as outputs contain it, from RFC 3339 text or milliseconds since 1970.

    Such texts sort in the order of their times; a number or text that is no time is a `ValueError`.
    """
    return TimeTexts()[value]


def is_canonical(text: str) -> bool:
    """Return whether a text is a `canonical` time."""
    try:
        return _CANONICAL.fullmatch(text) is not None and datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def epoch_ms(text: str) -> int:
    """Return a `canonical` time in milliseconds since 1970."""
    return (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND


def later(text: str, seconds: float) -> str:
    """Return the `canonical` time that is `seconds` after another, at most the end of the year 9999."""
    return canonical(min(epoch_ms(text) + round(1000 * seconds), LAST))
