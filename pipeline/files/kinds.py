"""What the columns of a file are: ids, times, labels, numbers, or what something keeps from being one of these."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from resonance.pipeline.files.rows import as_number
from resonance.pipeline.files.survey import FEW, Column, FileSurvey
from resonance.pipeline.json_paths import parse_path
from resonance.pipeline.timestamps import SECONDS, TimeTexts, milliseconds

MAX_STRANGE: Final = 0.1
"""Largest share of values that are no number in a column of numbers, unless they are a few words."""

FEW_WORDS: Final = 3
"""Most texts without a digit, such as N/A, that stand for missing numbers where a tenth are numbers."""

FEWEST: Final = 100
"""Fewest records after which equal values are no accident."""

NEARLY_ALL: Final = 0.99
"""Share of one value beyond which a column has no range: the scale ends at the 1st and the 99th percentile."""

RARELY: Final = 0.9
"""Share of zeros beyond which integers from 0 on count something rare, and name no kinds; of true or of false."""

GRID: Final = 5
"""Fewest integers on an even grid that count as an amount; fewer may name kinds."""

AGAIN: Final = 50
"""Changes of a counter for each fall, at least; of anything else about half are falls."""

RISES: Final = 1_000
"""The same of any numbers: what is measured goes down as it has come up, and in more than one step."""

MOST_CLASSES: Final = 50
"""Most different values of a column that counts as a label by its name."""

FEWEST_TURNS: Final = 3
"""Steps past 360 from which numbers are a direction, whatever its name."""

NEAR_NORTH: Final = 30
"""Degrees from 0 or 360 that are near it."""

_ID = re.compile(r"(.*[ ._-])?([iI][dD]|[uUgG][uU][iI][dD])|.*[a-z]I[dD]")
_COUNTER = re.compile(r"(?i)index|row|nr|no|#")
_TIME = re.compile(r"(?i)(.*[ ._-])?(time|timestamp|ts|date|datetime|at|when|day)|.*time(stamp)?|.*date")
_STARTS = re.compile(r"(?i)(.*[ ._-])?(start|begin|end|first|last|epoch|created|received)(ed|ing|[ ._-]?seen)?")
_LABEL = re.compile(
    r"(?i)(.*[ _-])?(label|target|class|truth|anomaly|outlier|novelty|change_?point|fault|failure|fraud|attack"
    r"|intrusion|outcome)(s|_?type|_?cat(egory)?)?|.*[a-z]Label"
)
_COUNTED = re.compile(
    r"(?i)(.*[ _-])?(fault|failure|fraud|attack|intrusion|outlier|change_?point)s|.*(anomal|novelt)ies"
)
_STATE = re.compile(
    r"(?i)(.*[ _-])?(err|errors?|timeout|timed_out|retry|retried|on|open|running|active|enabled|occupied|motion|heating"
    r"|cooling|reject(ed|s)?|scrap(ped)?|rework(ed)?|success(ful)?|cancell?ed|dropped|cache_hit|status|state|mode"
    r"|stop(ped)?|break|idle|downtime|maintenance|standstill|busy|ready|moving|connected|online|offline|ein|aus|auf|zu"
    r"|betrieb|l(ae|ä)uft|aktiv|bereit|abriss|stillstand|stopp|halt|pause|wartung|r(ue|ü)sten|offen|gesperrt|belegt"
    r"|t(ue|ü)r|heizt|k(ue|ü)hlt|zustand|freigabe|ausschuss)([ ._-]?flag)?"
    r"|.*[a-z](Error|Timeout|On|Open|Running|Active|Enabled|Reject|Rejected|Scrap|Rework|Success)"
)
"""What a flag is measured of, and not what is known of the record."""
_QUALITY = re.compile(
    r"(?i)(.*[^a-z])?(qc|qa|qual(ity)?|validity|g(ue|ü)te|qualit(ae|ä)t)"
    r"([ ._-]?(flags?|codes?|bits?|ind(icator)?|status))?"
    r"|.*[a-z](?-i:QC|QA|Qual|Quality|Validity)(Flag|Code)?"
)
"""What says how good a number is, and is none itself."""
_CODE = re.compile(
    r"(?i)(.*[^a-z])?((status|state|mode|flags?|zustand|modus|betriebsart)([ ._-]?(code|flag|no|nr|id|word))?)"
    r"|.*[a-z](?-i:Status|State|Mode|Flags?|Code)"
)
"""What numbers the states of something."""
_NAMING = re.compile(
    r"(?i)(.*[^a-z])?([sd](rc|st)?_?port|port|(orig|resp)_p|(zip|postal)([ _-]?code)?|post[ _-]?code|fips)"
    r"|.+[ _.-](code|number|no|nr)"
    r"|shift|schicht|year|month|day|week|week_?day|day_?of_?(week|month|year)|hour|minute"
)
_NUMBERED = re.compile(
    r"(?i)(.*[^a-z])?(bin|iin|zip|plz|ean|gtin|upc|iban|imei|imsi|msisdn|mmsi|imo)|code|number"
    r"|.*[a-z](?-i:Code|Number|No|Nr|Bin|Zip|Plz)"
)
"""What numbers many things, such as cards; a few integers may be as many pieces."""
_VERSION = re.compile(
    r"(?i)(.*[^a-z])?(version|ver|firmware|fw|release|build|revision)([ ._-]?(no|nr|number))?"
    r"|.*[a-z](?-i:Version|Firmware|Release|Build|Revision)"
)
_DIRECTION = re.compile(
    r"(?i)(.*(direction|heading|azimuth|winddir)|(.*[ ._-])?(dir|bearing|wd|wdir|hdg))"
    r"([ ._-]?(deg(rees)?|[0-9]+m?))?"
)
_LATITUDE = re.compile(r"(?i)(.*[ ._-])?(lat|latitude)([ ._-]?deg(rees)?)?")
_LONGITUDE = re.compile(r"(?i)(.*[ ._-])?(lon|long|lng|longitude)([ ._-]?deg(rees)?)?")
_DIGIT = re.compile("[0-9]")
_DATE = re.compile(r"[0-9]{4}([./-])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([./-])[0-9]{1,2}\2[0-9]{2,4}")
_CLOCK = re.compile(rf"(?:{_DATE.pattern})(?:[T ,]+[0-9]{{1,2}}:.*)?")
_OF_DAY = re.compile(r"(?i)[0-9]{1,2}([:.])[0-9]{2}(\1[0-9]{2}(\.[0-9]+)?)?( ?[ap]m)?")
_DAYS: Final = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d %Y", "%b %d, %Y", "%d %B %Y"),
)
_TIMES: Final = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H.%M.%S", "%H.%M", "%I:%M:%S %p", "%I:%M %p")
_WHOLE: Final = (*_DAYS, "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y")
_FORMS: Final = (*(f"{day} {time}" for day in _DAYS for time in _TIMES), *_WHOLE)
_OF_DIGITS: Final = {8: ("%Y%m%d",), 12: ("%Y%m%d%H%M",), 14: ("%Y%m%d%H%M%S",)}
"""Forms of digits alone, by their number."""

_SCALES: Final = [range(10**9 * unit, 4 * 10**9 * unit) for unit in (1, 10**3, 10**6, 10**9)]
"""Numbers that count as a time, and not as a duration, where the name is one of a time: from 2001 to 2096."""


class Kinds:
    """The columns of a survey, by kind: each is in one list at most."""

    def __init__(self, seen: FileSurvey) -> None:
        columns = seen.columns.items()
        self.ids = [path for path, column in columns if _names_records(last(path), column)]
        """Of texts or integers with the name of an id."""
        self.labels = [path for path, column in columns if _is_label(last(path), column)]
        """Of what is known of records, such as 0 and 1, and not measured."""
        named = {*self.labels}
        flags = [path for path, column in columns if _is_flag(path, column, seen.records)]
        measured = any(_STATE.fullmatch(last(path)) for path in flags)
        if not self.labels and len(flags) == 1 and not measured and seen.records >= FEWEST:
            self.labels = flags
        self.unsure = [path for path in self.labels if path not in named]
        """Labels only because they are 0 and 1, as a state may be."""
        known = {*self.ids, *self.labels}
        clocks = [path for path, column in columns if path not in known and _tells_time(last(path), column)]
        self.clocks = sorted(clocks, key=lambda path: (*_as_clock(seen.columns[path]), path))
        """Of times, by name or by texts that are times, the times of the records first; not all can be read."""
        known |= {*self.clocks}
        self.numbers = [path for path, column in columns if path not in known and _is_number(column)]
        """Of numbers, apart from a few texts."""


def last(path: str) -> str:
    """Return the name at the end of a path."""
    return parse_path(path)[-1]


def texts_with_digits(column: Column) -> list[str]:
    """Return an example of each shape of the texts with a digit."""
    return [text for text in column.shapes.values() if _DIGIT.search(text)]


def words(column: Column) -> list[str]:
    """Return the texts without a digit, as far as they are known."""
    return sorted(text for text in column.shapes.values() if not _DIGIT.search(text))


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
    texts = [text for value in column.sample if _DIGIT.search(text := str(value))]
    return _that_fit_the_days(_forms_of(texts), column, texts)


def is_date(column: Column) -> bool:
    """Return whether the first texts of a column are dates without a time of day."""
    return column.only(str) and all(map(_DATE.fullmatch, column.sample))


def is_time_of_day(column: Column) -> bool:
    """Return whether the first texts of a column are times of a day."""
    return column.only(str) and all(map(_OF_DAY.fullmatch, column.sample))


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


def is_constant(column: Column, records: int) -> bool:
    """Return whether nearly all of enough numbers are the same, and the others are no rare counts."""
    is_count = column.common == 0 == column.low.value and len(column.few) > 1
    return records >= FEWEST and column.same > NEARLY_ALL * column.numbers and not is_count


def grows(column: Column, records: int) -> bool:
    """Return whether numbers never become less, as those of a clock, or integers hardly ever, as where one wraps.

    Of any numbers single ones may come late.
    """
    if records < FEWEST or column.falls is None or not column.only(int, float):
        return False
    wraps = column.only(int) and len(column.few) > FEW and AGAIN * column.falls <= column.changes
    # What rarely grows may be late as often.
    is_rare = column.late <= column.strays and column.runs >= GRID - 1
    few_late = RISES * column.restarts <= column.changes and (is_rare or AGAIN * column.late <= column.changes)
    return wraps or (few_late and len(column.few) >= GRID)


def names_kinds(path: str, column: Column) -> bool:
    """Return whether integers name something, such as a port, or are a part of a date.

    So says the name of the column, or a zero that some begin with.
    """
    is_padded = column.only(int, str) and bool(column.shapes) and not any(each.strip("0") for each in column.shapes)
    is_numbered = len(column.few) > FEW and bool(_NUMBERED.fullmatch(last(path)))
    return is_padded or (column.only(int) and (is_numbered or any(map(_NAMING.fullmatch, (path, last(path))))))


def is_status(path: str, column: Column, records: int) -> bool:
    """Return whether a few integers number states, or how good something is, by their name.

    One or the other state may be measured.
    """
    is_few = records >= FEWEST and 1 < len(column.few) <= FEW
    if not is_few or not column.only(int, float) or any(each % 1 for each in column.few):
        return False
    if _QUALITY.fullmatch(last(path)):
        return 2 * column.same > column.numbers
    return len(column.few) > 2 and bool(_CODE.fullmatch(last(path)))


def is_version(path: str, column: Column) -> bool:
    """Return whether a column has a few versions, by its name: 8.10 is no number, and far from 8.1."""
    return bool(_VERSION.fullmatch(last(path))) and max(len(column.few), len(column.words)) <= FEW


def is_direction(path: str, column: Column) -> bool:
    """Return whether numbers are degrees that begin again at 360, by their name or by their steps."""
    if not column.only(int, float) or column.low.value < 0 or not 180 < column.high.value <= 360:
        return False
    steps = [abs(after - before) for before, after in pairwise(column.sample)]
    turns = sum(step >= 360 - 2 * NEAR_NORTH for step in steps)
    # Other numbers up to 360 jump as far, but by any step.
    small = sum(min(step, 360 - step) <= 2 * NEAR_NORTH for step in steps)
    return bool(_DIRECTION.fullmatch(last(path))) or (turns >= FEWEST_TURNS and small >= 0.9 * len(steps))


def positions_in(paths: Iterable[str]) -> set[str]:
    """Return the columns of latitudes and longitudes, where there are both."""
    found = [[path for path in paths if form.fullmatch(last(path))] for form in (_LATITUDE, _LONGITUDE)]
    return {*found[0], *found[1]} if all(found) else set()


def is_marked(column: Column) -> bool:
    """Return whether all texts are numbers, with a unit, thousands or a decimal comma."""
    texts = texts_with_digits(column)
    return bool(texts) and all(
        as_number(each, marked=True) or as_number(each, comma=True, marked=True) for each in texts
    )


def is_constant_text(column: Column, records: int) -> bool:
    """Return whether enough records all have the same text."""
    return records >= FEWEST and column.only(str) and column.present == records and len(column.words) == 1


def is_code(column: Column, records: int) -> bool:
    """Return whether numbers are a few integers that may name kinds: three or four, or with gaps between them."""
    few = column.few
    if records < FEWEST or column.kinds[float] or not 2 < len(few) <= FEW:
        return False
    if column.common == 0 == column.low.value and column.same > RARELY * column.numbers and max(few) < 2 * len(few):
        return False  # How many there were, mostly none.
    return len(few) < GRID or max(few) - min(few) >= len(few)


def is_rare_flag(column: Column) -> bool:
    """Return whether a column has true and false, as texts too, one of them in few records: how often says a lot."""
    counts = column.counts if column.only(str, bool) else None
    if not counts or {str(value).lower() for value in counts} != {"true", "false"}:
        return False
    return max(counts.values()) > RARELY * column.present


def is_counter(column: Column, records: int) -> bool:
    """Return whether integers count the records, in even steps; a few may come twice or late."""
    if records < FEWEST or not column.only(int) or len(column.sample) < 2:
        return False
    steps = Counter(after - before for before, after in pairwise(column.sample))
    [(step, count)] = steps.most_common(1)
    is_even = column.unique if len(steps) == 1 else column.restarts == 0
    return step != 0 and is_even and count >= NEARLY_ALL * steps.total()


def names_each(column: Column, records: int) -> bool:
    """Return whether each record has a text of its own, whatever the name of the column is.

    Sentences, and measurements as text, differ as well, but name nothing.
    """
    if not (column.only(str) and column.unique and column.present == records and len(column.words) > FEW):
        return False
    texts = column.sample
    if any(" " in text for text in texts):
        return False
    return all(map(str.isdigit, texts)) or not is_marked(column)


def is_prose(column: Column) -> bool:
    """Return whether a column has texts of several words, most of them different."""
    several = [text for text in column.sample if type(text) is str and text.count(" ") > 1]
    return column.only(str) and len(column.words) > FEW and 2 * len(several) > len(column.sample)


def _names_records(name: str, column: Column) -> bool:
    if not column.only(str, int):
        return False
    return bool(_ID.fullmatch(name)) or (bool(_COUNTER.fullmatch(name)) and column.unique)


def _tells_time(name: str, column: Column) -> bool:
    if column.only(int, float):
        if not (_TIME.fullmatch(name) or _STARTS.fullmatch(name)):
            return False
        digits = column.only(int) and bool(_forms_of(list(map(str, column.sample))))
        return digits or any(_is_within(column, [those]) for those in _SCALES)
    texts, is_named = texts_with_digits(column), bool(_TIME.fullmatch(name))
    # Some may be milliseconds, others texts.
    fits = column.only(str) or (column.only(str, int, float) and is_named and _is_within(column, _SCALES))
    return fits and bool(texts) and (is_named or all(map(_CLOCK.fullmatch, texts)))


def _as_clock(column: Column) -> tuple[bool, int, bool, int, int]:
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


def _is_number(column: Column) -> bool:
    wordy = len(column.words) <= FEW_WORDS and column.strange == column.kinds[str] and not texts_with_digits(column)
    return column.numbers > 0 and column.strange <= column.present * (1 - MAX_STRANGE if wordy else MAX_STRANGE)


def _is_flag(path: str, column: Column, records: int) -> bool:
    return column.few == {0, 1} and column.only(int, float) and not is_status(path, column, records)


def _is_label(name: str, column: Column) -> bool:
    few = column.only(str, int) and column.counts is not None and 1 < len(column.counts) <= MOST_CLASSES
    # With missing ones among them, whole numbers are written as 1.0.
    whole = column.only(int, float) and 1 < len(column.few) <= FEW and all(each % 1 == 0 for each in column.few)
    # Where most have none, two or more of several numbers count how many there were.
    counts = bool(_COUNTED.fullmatch(name)) and len(column.few) > 2 and column.common == 0 == column.low.value
    return bool(_LABEL.fullmatch(name)) and (few or column.only(bool) or whole) and not counts


def _forms_of(texts: Sequence[str]) -> list[str]:
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
