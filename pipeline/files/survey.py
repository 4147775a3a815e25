"""What the columns of many records hold, in one pass and bounded memory: kinds of values, gaps, categories, ids."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from operator import gt, ne
from typing import Any, Final

from resonance.pipeline.json_paths import escaped

SAMPLE: Final = 500
"""First values of a column that are kept."""

FEW: Final = 12
"""Most different texts, or integers, of a column that counts as a category."""

FEWEST: Final = 100
"""Fewest records after which equal values are no accident."""

MAX_COLUMNS: Final = 5_000
"""Most columns that are surveyed; objects with a name for each thing have any number of them."""

MAX_NAMES: Final = 10_000
"""Values that are compared to find out whether a column identifies its records."""

HEAD: Final = 2_000
"""First records that are kept whole: how columns go together."""

APART: Final = (1 + 5**0.5) / 2
"""Records from one of those that are kept from everywhere to the next: of sources that take turns all are met."""

MAX_SOURCES: Final = 1_000
"""Most different texts, or integers, of a column that are counted: it may name the sources of the records."""

MAX_STARTS: Final = 5_000
"""Most different beginnings of texts that are kept: the days of ten years and more."""

START: Final = 10
"""Characters of these: a date in digits has at most as many."""

RESTLESS: Final = 20
"""Values for each change, or for each fall, at least, where it may be that of a single record that comes late."""

DIGIT = re.compile("[0-9]")
_SHAPE: Final = str.maketrans("123456789", "000000000")


class Edge:
    """The least or the largest number of a column, how often it comes, and the one beside it."""

    __slots__ = ("_of", "beside", "count", "value")

    def __init__(self, of: Callable[..., Any]) -> None:
        self._of = of
        self.value: Any = None
        self.count = 0
        self.beside: Any = None
        """None as long as all numbers are the same."""

    def add(self, numbers: Sequence[Any], different: set[Any]) -> None:
        """Add numbers, of which these are different."""
        own = {each for each in (self.value, self.beside) if each is not None}
        most = self._of(different)
        before, self.value = self.value, self._of([most, *own])
        if self.value != before:
            self.count = 0
        if most == self.value:
            self.count += numbers.count(most)
            different.discard(most)
            own |= {self._of(different)} if different else set()
            different.add(most)
        else:
            own.add(most)
        self.beside = self._of(own - {self.value}, default=None)


class Column:
    """What the records hold at one path."""

    __slots__ = (
        "_gap_begin",
        "_last",
        "_missing",
        "_rows",
        "_run",
        "_seen",
        "changes",
        "common",
        "counts",
        "falls",
        "few",
        "gap",
        "gap_record",
        "high",
        "kinds",
        "late",
        "low",
        "present",
        "same",
        "sample",
        "shapes",
        "starts",
        "stranger",
        "strays",
        "unique",
        "words",
    )

    def __init__(self) -> None:
        self.present = 0
        """Values that are not null."""
        self.kinds: Counter[type] = Counter()
        """Number of values of each type."""
        self.sample: list[Any] = []
        """The first values (`SAMPLE`)."""
        self.stranger: Any = None
        """The first value that is no number."""
        self.words: set[str] = set()
        """Different texts; one more than `FEW` stand for any number."""
        self.shapes: dict[str, str] = {}
        """Texts with each digit as 0, one more than `FEW` at most, and an example of each."""
        self.starts: dict[str, None] = {}
        """Different beginnings (`START`) of texts, such as dates, where the first one begins with a digit."""
        self.few: set[int | float] = set()
        """Different numbers; one more than `FEW` stand for any number."""
        self.common: Any = None
        """The most frequent number of those that came first."""
        self.same = 0
        """How often it comes."""
        self.unique = True
        """Whether the first `MAX_NAMES` values are texts or integers, none of them twice."""
        self.counts: Counter[Any] | None = Counter()
        """Of texts, integers and flags, how often each comes; None where more than `MAX_SOURCES` are different."""
        self.changes = 0
        """How often a value is another one than that before it."""
        self.falls: int | None = 0
        """How often it is less, as numbers or as texts; None where values of several kinds cannot be compared."""
        self.strays = 0
        """Single values, where values hardly change, between two that are alike."""
        self.late = 0
        """Falls that are over with the next value, or those of a larger value alone, as of records that come late."""
        self.low, self.high = Edge(min), Edge(max)
        self.gap = 0
        """Most records in a row that have null."""
        self.gap_record: dict[str, Any] = {}
        """The first of them; empty where not all records have the path."""
        self._missing = self._rows = self._gap_begin = 0
        self._run: tuple[int, dict[str, Any]] = 0, {}
        self._seen: set[Any] = set()
        self._last: list[Any] = []

    @property
    def numbers(self) -> int:
        """Number of values that are numbers; true and false are none."""
        return self.kinds[int] + self.kinds[float]

    @property
    def strange(self) -> int:
        """Number of values that are no numbers."""
        return self.present - self.numbers

    @property
    def restarts(self) -> int:
        """How often values fall and stay less; 0 where they cannot be compared."""
        return (self.falls or 0) - self.late

    @property
    def runs(self) -> int:
        """How often a value is another one, and stays so."""
        return self.changes - 2 * self.strays

    def only(self, *kinds: type) -> bool:
        """Whether there are values, and all are of these types."""
        return self.present > 0 and self.present == sum(self.kinds[kind] for kind in kinds)

    def add(self, values: list[Any], kinds: Counter[type]) -> None:
        """Add values, with the number of them of each type."""
        self._find_gap(values, kinds[type(None)])
        if nothing := kinds.pop(type(None), 0):
            if nothing == len(values):
                return
            values = [value for value in values if value is not None]
        if kinds[int] + kinds[float] < len(values):
            if not self.strange:
                self.stranger = next(value for value in values if type(value) not in (int, float))
            if kinds[str] and (len(self.words) <= FEW or len(self.shapes) <= FEW):
                self._add_texts(dict.fromkeys(value for value in values if type(value) is str))
            if kinds[str] and len(self.starts) < MAX_STARTS and str(self.stranger)[:1].isdigit():
                self.starts |= dict.fromkeys(value[:START] for value in values if type(value) is str)
        if kinds[int] + kinds[float]:
            self._add_numbers(values, mixed=kinds[int] + kinds[float] < len(values))
        if self.unique and self.present < MAX_NAMES:
            self._compare(values)
        self._follow(values, kinds)
        if len(self.sample) < SAMPLE:
            self.sample += values[: SAMPLE - len(self.sample)]
        self.kinds += kinds
        self.present += len(values)

    def _find_gap(self, values: list[Any], nothing: int) -> None:
        """Find the longest run of null, which may have begun among the values before."""
        for is_missing, run in groupby(value is None for value in values) if nothing else [(False, values)]:
            length = len(list(run)) if nothing else len(values)
            self._missing = self._missing + length if is_missing else 0
            self._rows += length
            if self._missing > self.gap:
                self.gap, self._gap_begin = self._missing, self._rows - self._missing

    def place_gap(self, records: Sequence[dict[str, Any]], begin: int) -> None:
        """Take the record at which the longest run of null began, when the last records, from one on, are added."""
        if not self.gap or self._rows != begin + len(records):
            self.gap_record = {}
            return
        if self._gap_begin >= begin:
            self.gap_record = records[self._gap_begin - begin]
        elif self._gap_begin == self._run[0]:
            self.gap_record = self._run[1]
        if (run := self._rows - self._missing) >= begin and self._missing:
            self._run = run, records[run - begin]

    def _add_texts(self, texts: Iterable[str]) -> None:
        _add_few(self.words, texts)
        for text in texts:
            if len(self.shapes) > FEW:
                break
            self.shapes.setdefault(text.translate(_SHAPE), text)

    def _add_numbers(self, values: list[Any], *, mixed: bool) -> None:
        numbers = [value for value in values if type(value) in (int, float)] if mixed else values
        different = set(numbers)
        if len(self.few) <= FEW:
            _add_few(self.few, different)
        self.low.add(numbers, different)
        self.high.add(numbers, different)
        if self.common is None:
            self.common = Counter(numbers).most_common(1)[0][0]
        self.same += numbers.count(self.common)

    def _follow(self, values: list[Any], kinds: Counter[type]) -> None:
        """Count what comes, and where a value differs from the one before it."""
        if self.counts is not None:
            known = kinds[str] + kinds[int] + kinds[bool]
            if known == len(values):
                self.counts.update(values)
            if known < len(values) or len(self.counts) > MAX_SOURCES:
                self.counts = None
        before, behind = self._last, [*self._last[-1:], *values]
        self._last = [*before, *values[-3:]][-3:]
        changes = sum(map(ne, behind, islice(behind, 1, None)))
        self.changes += changes
        if self.changes and RESTLESS * changes <= len(values):
            self.strays += _strays([*before[-2:], *values])
        if self.falls is not None:
            try:
                falls = sum(map(gt, behind, islice(behind, 1, None)))
                self.falls += falls
                if self.falls and RESTLESS * falls <= len(values):
                    self.late += _late([*before, *values])
            except TypeError:
                self.falls = None

    def _compare(self, values: list[Any]) -> None:
        names = [value for value in values if type(value) in (str, int)]
        before = len(self._seen)
        self._seen.update(names)
        self.unique = len(self._seen) == before + len(values)
        if not self.unique or len(self._seen) >= MAX_NAMES:
            self._seen.clear()


def _add_few(known: set[Any], values: Iterable[Any]) -> None:
    """Add values until there is one more than `FEW`."""
    known.update(list(islice((value for value in values if value not in known), max(FEW + 1 - len(known), 0))))


def _late(values: Sequence[Any]) -> int:
    """Return how many falls are those of a single value: it is less than others around it that are not, or more."""
    around = zip(values, values[1:], values[2:], values[3:], strict=False)
    return sum(before > after and (after >= first or last >= before) for first, before, after, last in around)


def _strays(values: Sequence[Any]) -> int:
    """Return how many values stand alone between two that are alike, and are no strays themselves."""
    count, is_after = 0, False
    for one, stray, other in zip(values, values[1:], values[2:], strict=False):
        is_after = one == other != stray and not is_after
        count += is_after
    return count


def texts_with_digits(column: Column) -> list[str]:
    """Return an example of each shape of the texts with a digit."""
    return [text for text in column.shapes.values() if DIGIT.search(text)]


def words(column: Column) -> list[str]:
    """Return the texts without a digit, as far as they are known."""
    return sorted(text for text in column.shapes.values() if not DIGIT.search(text))


class FileSurvey:
    """Surveys the columns of records batch by batch."""

    def __init__(self, records: Sequence[dict[str, Any]] = ()) -> None:
        self.records = 0
        """Records so far."""
        self.columns: dict[str, Column] = {}
        """By path, in the order in which they were found."""
        self.head: list[dict[str, Any]] = []
        """The first records (`HEAD`)."""
        self.tail: list[dict[str, Any]] = []
        """Some of the last ones, where these are others."""
        self.spaced: list[dict[str, Any]] = []
        """Records from everywhere, `HEAD` to twice as many of enough: how columns go on over all of them."""
        self.apart = APART
        """How many records there are from one of these to the next, on average."""
        self.add(records)

    def add(self, records: Sequence[dict[str, Any]]) -> None:
        """Survey more records."""
        self.tail = [*records[-HEAD:]] if self.records >= HEAD else []
        self.head += records[: HEAD - len(self.head)]
        self._space(records)
        self._add(records, "")
        for column in self.columns.values():
            column.place_gap(records, self.records)
        self.records += len(records)

    def _space(self, records: Sequence[dict[str, Any]]) -> None:
        """Keep each record at a multiple of `apart`, which doubles where there are too many."""
        while (at := int(len(self.spaced) * self.apart) - self.records) < len(records):
            self.spaced.append(records[at])
            if len(self.spaced) == 2 * HEAD:
                self.spaced, self.apart = self.spaced[::2], 2 * self.apart

    def _add(self, objects: Sequence[dict[str, Any]], before: str) -> None:
        for name, values in _by_name(objects):
            if not name:
                # No path can name it.
                continue
            path = before + escaped(name)
            kinds = Counter(map(type, values))
            if kinds[dict]:
                self._add([value for value in values if type(value) is dict], f"{path}.")
                self._take(path, [value for value in values if type(value) is not dict or not value])
            else:
                self._take(path, values, kinds)

    def _take(self, path: str, values: list[Any], kinds: Counter[type] | None = None) -> None:
        """Add the values of a path, unless there are none or too many paths."""
        column = self.columns.get(path)
        if column is None:
            if not values or len(self.columns) >= MAX_COLUMNS:
                return
            column = self.columns[path] = Column()
        column.add(values, Counter(map(type, values)) if kinds is None else kinds)


def _by_name(objects: Sequence[dict[str, Any]]) -> Iterable[tuple[str, list[Any]]]:
    """Return the values of each member, in the order in which the members were found."""
    shapes = set(map(tuple, objects))
    if len(shapes) == 1:
        # The usual case, several times as fast.
        columns = zip(*(each.values() for each in objects), strict=True)
        return zip(shapes.pop(), map(list, columns), strict=True)
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for each in objects:
        for name, value in each.items():
            found[name].append(value)
    return found.items()
