"""What the columns of a file are: ids, times, labels, numbers, or what something keeps from being one of these."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from resonance.pipeline.files.clocks import AGAIN, as_clock, is_epoch, tells_time
from resonance.pipeline.files.proofs import goes_forward
from resonance.pipeline.files.rows import as_number
from resonance.pipeline.files.survey import FEW, FEWEST, Column, FileSurvey, texts_with_digits
from resonance.pipeline.json_paths import parse_path

MAX_STRANGE: Final = 0.1
"""Largest share of values that are no number in a column of numbers, unless they are a few words."""

FEW_WORDS: Final = 3
"""Most texts without a digit, such as N/A, that stand for missing numbers where a tenth are numbers."""

NEARLY_ALL: Final = 0.99
"""Share of one value beyond which a column has no range: the scale ends at the 1st and the 99th percentile."""

RARELY: Final = 0.9
"""Share of zeros beyond which integers from 0 on count something rare, and name no kinds; of true or of false."""

GRID: Final = 5
"""Fewest integers on an even grid that count as an amount; fewer may name kinds."""

RISES: Final = 1_000
"""The same of any numbers: what is measured goes down as it has come up, and in more than one step."""

MOST_CLASSES: Final = 50
"""Most different values of a column that counts as a label by its name."""

_ID = re.compile(r"(.*[ ._-])?([iI][dD]|[uUgG][uU][iI][dD])|.*[a-z]I[dD]")
_COUNTER = re.compile(r"(?i)index|row|nr|no|#")
_LABEL = re.compile(
    r"(?i)(.*[ _-])?(label|target|class|truth|anomaly|outlier|novelty|change_?point|fault|failure|fraud|attack"
    r"|intrusion|outcome)(s|_?type|_?cat(egory)?)?|.*[a-z]Label"
)
_OF_SOMETHING = re.compile(
    r"(?i)(?!(.*[ ._-])?(label|annotat(ion|ed)|truth|true|actual|real|gold|ground|known|expected|predict(ed|ion)"
    r"|anomaly|outlier|novelty|fault|failure|defect|error|event|fraud|attack|intrusion|outcome|target|result|output|y|gt|sub"
    r"|species|activity|super|multi|binary|data|value|payload|record|row|sample|meta(data)?|fields|after|body|message|properties)s?"
    r"[ ._-]).+[ ._-](class|target)"
)
"""A class that is not one of the record, but of what it is about, such as that of its vehicle."""
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
_GOOD = re.compile(r"(?i)ok(ay)?|good|pass(ed)?|success(ful)?|normal|healthy|i\.?o\.?|gut|bestanden|valid|correct")
_BAD = re.compile(
    r"(?i)(not[ _-]?|n)ok(ay)?|bad|fail(ed|ure)?|error|fault(y)?|defect(ive)?|reject(ed)?|scrap|broken|anomal(y|ous)"
    r"|abnormal|unhealthy|n\.?i\.?o\.?|schlecht|defekt|fehler(haft)?|ausschuss|invalid|incorrect|damaged"
)
"""What says of a record that it was good, or that it was not."""
_YES = re.compile(r"(?i)y(es)?|ja?|si|oui|1")
_NO = re.compile(r"(?i)no?|nein|non|0")
_NAMING = re.compile(
    r"(?i)(.*[^a-z])?([sd](rc|st)?_?port|port|(orig|resp)_p|(zip|postal)([ _-]?code)?|post[ _-]?code|fips)"
    r"|.+[ _.-](code|number|no|nr)"
    r"|shift|schicht|year|month|day|week|week_?day|day_?of_?(week|month|year)|hour|minute"
)
_NUMBERED = re.compile(
    r"(?i)(.*[^a-z])?(bin|iin|zip|plz|ean|gtin|upc|iban|imei|imsi|msisdn|mmsi|imo|rfid|badge|barcode)|code"
    r"|number|serial|.*nummer"
    r"|.*[a-z](?-i:Code|Number|No|Nr|Bin|Zip|Plz)"
)
"""What numbers many things, such as cards; a few integers may be as many pieces."""
_VERSION = re.compile(
    r"(?i)(.*[^a-z])?(version|ver|firmware|fw|release|build|revision)([ ._-]?(no|nr|number))?"
    r"|.*[a-z](?-i:Version|Firmware|Release|Build|Revision)"
)
_AMOUNT = re.compile(
    r"(?i)(n|nr|num(ber)?|count|no[ ._-]of)[ ._-](of[ ._-])?(?!(.*[^a-z])?(type|mode|kind|state|code|class)$).+"
    r"|(.*[^a-z])?(count|qty|quantity|anzahl|anz|menge|st(ue|ü)ck(zahl)?)"
    r"|(?!(.*[^a-z])?(types|kinds|classes|modes|codes|states|statuses|flags|bits|ids|levels|grades|series|lens)$)"
    r".*[a-z][b-hj-rtv-z]s|.*[a-z](?-i:Count|Quantity|Anzahl)"
)
"""What says how many there are: a noun in the plural, or a count."""
_LATITUDE = re.compile(r"(?i)(.*[ ._-])?(lat|latitude)([ ._-]?deg(rees)?)?")
_LONGITUDE = re.compile(r"(?i)(.*[ ._-])?(lon|long|lng|longitude)([ ._-]?deg(rees)?)?")


class Kinds:
    """The columns of a survey, by kind: each is in one list at most."""

    def __init__(self, seen: FileSurvey) -> None:
        columns = seen.columns.items()
        self.ids = [path for path, column in columns if _names_records(last(path), column)]
        """Of texts or integers with the name of an id."""
        self.labels = [path for path, column in columns if _is_label(path, column)]
        """Of what is known of records, such as 0 and 1, and not measured."""
        named = {*self.labels}
        flags = [path for path, column in columns if _is_flag(path, column, seen.records)]
        measured = any(_STATE.fullmatch(last(path)) for path in flags)
        if not self.labels and len(flags) == 1 and not measured and seen.records >= FEWEST:
            self.labels = flags
        answers = [path for path, column in columns if _is_of(column, [_YES, _NO]) and not _STATE.fullmatch(last(path))]
        if not self.labels and not flags and len(answers) == 1 and seen.records >= FEWEST:
            self.labels = answers
        verdicts = [path for path, column in columns if _is_of(column, [_GOOD, _BAD]) and seen.records >= FEWEST]
        self.labels += [path for path in verdicts if path not in self.labels and not _QUALITY.fullmatch(last(path))]
        self.unsure = [path for path in self.labels if path not in named]
        """Labels only because they are 0 and 1, or good and bad, as a state may be."""
        known = {*self.ids, *self.labels}
        clocks = [path for path, column in columns if path not in known and tells_time(last(path), column)]
        if not clocks:
            epochs = (path for path, column in columns if path not in known and is_epoch(last(path), column))
            clocks = [path for path in epochs if goes_forward(seen, path)]
            # Of several one may count something else.
            clocks = clocks if len(clocks) == 1 else []
        self.clocks = sorted(clocks, key=lambda path: (*as_clock(seen.columns[path]), path))
        """Of times, by name or by what they look like, the times of the records first; not all can be read."""
        known |= {*self.clocks}
        self.numbers = [path for path, column in columns if path not in known and _is_number(column)]
        """Of numbers, apart from a few texts."""


def last(path: str) -> str:
    """Return the name at the end of a path."""
    return parse_path(path)[-1]


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


def is_code(path: str, column: Column, records: int) -> bool:
    """Return whether numbers are a few integers that may name kinds: three or four, or with gaps between them.

    One to four passengers are as much an amount as none to four.
    """
    few = column.few
    if records < FEWEST or column.kinds[float] or not 2 < len(few) <= FEW:
        return False
    if _AMOUNT.fullmatch(last(path)) and min(few) in (0, 1) and max(few) - min(few) == len(few) - 1:
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


def _is_number(column: Column) -> bool:
    wordy = len(column.words) <= FEW_WORDS and column.strange == column.kinds[str] and not texts_with_digits(column)
    return column.numbers > 0 and column.strange <= column.present * (1 - MAX_STRANGE if wordy else MAX_STRANGE)


def _is_flag(path: str, column: Column, records: int) -> bool:
    return column.few == {0, 1} and column.only(int, float) and not is_status(path, column, records)


def _is_of(column: Column, words: Sequence[re.Pattern[str]]) -> bool:
    """Return whether texts are some of each of several kinds of words, and no others."""
    texts = [str(each).strip() for each in column.counts or ()] if column.only(str) else []
    is_few = 1 < len(texts) <= FEW and all(any(each.fullmatch(text) for each in words) for text in texts)
    return is_few and all(any(map(each.fullmatch, texts)) for each in words)


def _is_label(path: str, column: Column) -> bool:
    name = last(path)
    if column.only(str) and _OF_SOMETHING.fullmatch("_".join(parse_path(path)[-2:])):
        return False
    few = column.only(str, int) and column.counts is not None and 1 < len(column.counts) <= MOST_CLASSES
    # With missing ones among them, whole numbers are written as 1.0.
    whole = column.only(int, float) and 1 < len(column.few) <= FEW and all(each % 1 == 0 for each in column.few)
    # Where most have none, two or more of several numbers count how many there were.
    counts = bool(_COUNTED.fullmatch(name)) and len(column.few) > 2 and column.common == 0 == column.low.value
    return bool(_LABEL.fullmatch(name)) and (few or column.only(bool) or whole) and not counts
