"""Which columns have the times of the records, and how these are written."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from resonance.pipeline.files.month_names import form_of
from resonance.pipeline.files.survey import DIGIT, FEWEST, Column, FileSurvey, texts_with_digits
from resonance.pipeline.timestamps import SECONDS, TimeTexts, milliseconds

AGAIN: Final = 50
"""Changes of a counter for each fall, at least; of anything else about half are falls."""

_TIME = re.compile(r"(?i)(.*[ ._-])?(time|timestamp|ts|date|datetime|at|when|day)|.*time(stamp)?|.*date")
_STARTS = re.compile(r"(?i)(.*[ ._-])?(start|begin|end|first|last|epoch|created|received)(ed|ing|[ ._-]?seen)?")
_IN_UNITS = re.compile(
    r"(?i)((.*[ ._-])?(t|ts|time|timestamp|date|datetime|at|when|epoch|unix|utc|start|begin|end|created|received"
    r"|updated|zeit|zeitpunkt)|.*time(stamp)?|.*zeitstempel|.*[a-z](?-i:At|Ts))[ ._-]?(in[ ._-])?"
    r"(?:(?P<s>s|secs?|seconds?)|(?P<ms>ms|msecs?|millis?|milliseconds?)|(?P<us>[uµ]s|usecs?|micros?|microseconds?)"
    r"|(?P<ns>ns|nsecs?|nanos?|nanoseconds?)|utc|gmt|local|unix|epoch|iso)"
)
"""A time with its unit or zone."""
_COUNTED = re.compile(
    r"(?i)(.*[^a-z])?(total|sum|count(er)?|bytes|octets|k?wh|meter|offset|seq(uence)?|id|no|nr|num(ber)?|key|serial|code"
    r"|.*(stand|summe|z(ae|ä)hler|nummer))|.*[a-z](?-i:Id|No|Nr|Number|Total|Count)"
)
"""What counts or numbers something, however large."""
_DATE = re.compile(r"[0-9]{4}([./-])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([./-])[0-9]{1,2}\2[0-9]{2,4}")
_CLOCK = re.compile(rf"(?:{_DATE.pattern})(?:[T ,]+[0-9]{{1,2}}:.*)?")
_OF_DAY = re.compile(r"(?i)[0-9]{1,2}([:.])[0-9]{2}(\1[0-9]{2}(\.[0-9]+)?)?( ?[ap]m)?")
_SHORT_DAY = re.compile(r"[0-9]{1,2}\.(?:0?[1-9]|1[0-2])\.([0-9]{2})")
_DAYS: Final = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y"),
)
_HALVES: Final = ("%I:%M:%S %p", "%I:%M %p", "%I:%M:%S%p", "%I:%M%p")
_TIMES: Final = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H.%M.%S", "%H.%M", *_HALVES)
_FORMS: Final = (*(f"{day} {time}" for day in _DAYS for time in _TIMES), *_DAYS)
_OF_DIGITS: Final = {8: ("%Y%m%d",), 12: ("%Y%m%d%H%M",), 14: ("%Y%m%d%H%M%S",)}
"""Forms of digits alone, by their number."""

_UNITS: Final = ("s", "ms", "us", "ns")
_SCALES: Final = [range(10**9 * unit, 4 * 10**9 * unit) for unit in (1, 10**3, 10**6, 10**9)]
"""Numbers that count as a time, and not as a duration, where the name is one of a time: from 2001 to 2096."""

_EPOCHS: Final = [range(11 * 10**8 * unit, 195 * 10**7 * unit) for unit in (1, 10**3, 10**6, 10**9)]
"""The same whatever the name is, from 2004 to 2031: ids begin with a thousand millions, or with a year."""


def is_rfc3339(column: Column) -> bool:
    """Return whether `input.time_path` can read the times of a column."""
    return _reads(texts_with_digits(column), TimeTexts().__getitem__) and _is_within(column, _SCALES[1:2])


def is_time(column: Column) -> bool:
    """Return whether they can become Kafka timestamps."""
    return _reads(texts_with_digits(column), milliseconds) and _is_within(column, _SCALES[1:])


def time_forms(column: Column) -> list[str]:
    """Return the forms in which the times of a column are written, as options take them, by the first and each day."""
    if len(_epochs(column)) == len(column.sample) and _is_within(column, _SCALES[:1]):
        return [SECONDS]
    texts = [text for value in column.sample if DIGIT.search(text := str(value))]
    return _that_fit_the_days(_forms_of(texts, texts_with_digits(column)), column, texts)


def is_date(column: Column) -> bool:
    """Return whether the first texts of a column are dates without a time of day."""
    return column.only(str) and all(_DATE.fullmatch(day) or "%M" not in (form_of(day) or "%M") for day in column.sample)


def is_time_of_day(column: Column) -> bool:
    """Return whether the first texts of a column are times of a day, and not days of a year or two."""
    if not column.only(str) or not all(map(_OF_DAY.fullmatch, column.sample)):
        return False
    days = [_SHORT_DAY.fullmatch(each) for each in column.sample]
    years = {day[1] for day in days if day}
    return not all(days) or len(years) > 2 or "00" in years


def times_of(seen: FileSurvey, path: str) -> tuple[str, ...]:
    """Return a column of times, and behind one of dates the first one of times of the day."""
    of_day = (each for each, column in seen.columns.items() if is_time_of_day(column))
    return (path, *([*of_day][:1] if is_date(seen.columns[path]) else []))


def forms_together(day: Column, time: Column) -> list[str]:
    """Return the forms in which dates and times of a day are written, one behind the other; ``""`` for ISO 8601."""
    times = [value for value in time.sample if value]
    days = [f"{each} {times[0]}" for each in day.sample if each]
    texts = days + [f"{day.sample[0]} {each}" for each in times]
    return [""] if _reads(texts, milliseconds) else _that_fit_the_days(_forms_of(texts), day, days)


def tells_time(name: str, column: Column) -> bool:
    """Return whether a column has times, by its name, or by texts that are times."""
    # The s of ts is no second.
    in_units = None if _TIME.fullmatch(name) else _IN_UNITS.fullmatch(name)
    unit = in_units.lastgroup if in_units else None
    scales = [_SCALES[_UNITS.index(unit)]] if unit else _SCALES
    if column.only(int, float):
        if in_units and any(_is_within(column, [those]) for those in scales):
            return True
        if not (_TIME.fullmatch(name) or _STARTS.fullmatch(name)):
            return False
        digits = column.only(int) and bool(_forms_of(list(map(str, column.sample))))
        return digits or any(_is_within(column, [those]) for those in _SCALES)
    if column.only(str) and in_units and len(_epochs(column)) == len(column.sample) and _is_within(column, scales):
        return True
    texts, is_named = texts_with_digits(column), bool(_TIME.fullmatch(name) or (in_units and unit is None))
    # Some may be milliseconds, others texts.
    fits = column.only(str) or (column.only(str, int, float) and is_named and _is_within(column, scales))
    return fits and bool(texts) and (is_named or all(_CLOCK.fullmatch(each) or form_of(each) for each in texts))


def is_epoch(name: str, column: Column) -> bool:
    """Return whether numbers, or texts of digits, may be times since 1970 though their name does not say so."""
    numbers = _epochs(column)
    if len(column.sample) < FEWEST or len(numbers) < len(column.sample) or _COUNTED.fullmatch(name):
        return False
    edges = [column.low.value, column.high.value] if column.only(int, float) else []
    is_plausible = any(all(number in those for number in map(int, (*numbers, *edges))) for those in _EPOCHS)
    # Ids count by one.
    return is_plausible and any(abs(after - before) > 1 for before, after in pairwise(numbers))


def as_clock(column: Column) -> tuple[bool, int, bool, int, int]:
    """Return what orders columns of times: what can be read, then what follows the records, and differs most often.

    Times of the day come last: dates are joined with them.
    """
    falls = column.changes if column.falls is None else column.falls
    return (
        is_time_of_day(column),
        -is_rfc3339(column) - is_time(column),
        AGAIN * falls > column.changes,
        -column.changes,
        falls,
    )


def _forms_of(texts: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    if named := {form for text in (*texts, *others) if (form := form_of(text))}:
        # May is a short name and a whole one: beside whole ones, whose form sorts before the other, it is one of them.
        return sorted(form for form in named if _reads(texts, _reader(form)))[:1]
    forms = _OF_DIGITS.get(len(texts[0]), ()) if all(map(str.isdigit, texts)) else _FORMS
    return [form for form in forms if _reads(texts, _reader(form))]


def _that_fit_the_days(forms: list[str], column: Column, texts: Sequence[str]) -> list[str]:
    """Return the forms that read the most days of all records: those of the first ones may have two readings."""
    found = _DATE.match(texts[0]) if len(forms) > 1 else None
    if found is None:
        return forms
    days = {day[0] for start in column.starts if (day := _DATE.match(start))}
    unread = {form: sum(not _reads([day + texts[0][found.end() :]], _reader(form)) for day in days) for form in forms}
    return [form for form in forms if unread[form] == min(unread.values())]


def _reader(form: str) -> Callable[[Any], object]:
    return lambda text: milliseconds(text, form)


def _reads(values: Iterable[Any], read: Callable[[Any], object]) -> bool:
    try:
        for value in values:
            read(value)
    except ValueError:
        return False
    return True


def _is_within(column: Column, scales: Sequence[range]) -> bool:
    """Return whether the first numbers of a column, or texts of digits, are times of these units."""
    return all(any(number in those for those in scales) for number in _epochs(column))


def _epochs(column: Column) -> list[int]:
    """Return the first numbers of a column, and texts of digits, which may be times since 1970."""
    return [int(value) for value in column.sample if type(value) in (int, float) or str(value).isdigit()]
