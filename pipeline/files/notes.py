"""What stands in the way of using the columns of a file, each with the option that removes it."""

import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from resonance.pipeline.errors import counted, some_of
from resonance.pipeline.files.clocks import forms_together, is_rfc3339, is_time, time_forms, times_of
from resonance.pipeline.files.date_order import forms_in_order
from resonance.pipeline.files.directions import is_direction
from resonance.pipeline.files.kinds import Kinds, is_version
from resonance.pipeline.files.proofs import rows_of
from resonance.pipeline.files.rows import Columns, as_number, without_unit
from resonance.pipeline.files.sources import SourceColumn, comes_again
from resonance.pipeline.files.survey import FEW, FEWEST, Column, Edge, FileSurvey, texts_with_digits, words
from resonance.pipeline.json_paths import ABSENT, find, parse_path

NOTHING: Final = Columns()
"""No option."""

_NAMED: Final = 3

LONG_GAP: Final = 20
"""Records in a row that lack a feature, at least, where it was away for a while."""

FEWEST_STAND_INS: Final = 3
"""Records with one number far beyond all others from which it may stand for a missing one."""

FEWEST_PEERS: Final = 5
"""Streams from which on they are compared with each other."""

COMPARED: Final = 40
"""Records of each from which on they are."""

_COUNT = re.compile(r"[0-9][0-9,.]*")
_VALUE = re.compile(r"[<>=~≈±+$€£¥-]*\s*[.,]?[0-9]")
_UNIT = re.compile(r"[+-]?[0-9][0-9.,]*\s*([^\W\d_][^\W\d_/²³]{0,7})")
_STAND_IN = re.compile(r"-?(9{2,}|[1-9]0{2,}|[0-9]{3,})|-1")


@dataclass(frozen=True, slots=True)
class Note:
    """A finding, with the option that changes it where there is one."""

    text: str
    remedy: str = ""
    """What the option does."""
    change: Columns = NOTHING
    """What the option chooses."""
    advised: bool = True
    """Whether the option is the better choice."""
    dead_letters: int = 0
    """Records that would be dead letters because of it, at most."""

    def __str__(self) -> str:
        """Return the finding and the option."""
        return f"{self.text}; {self.remedy}: {self.option}" if self.remedy else self.text

    @property
    def about(self) -> str:
        """What it says apart from counts, which grow with the records."""
        return _COUNT.sub("", self.text)

    @property
    def option(self) -> str:
        """The option as it is written."""
        return shlex.join(self.change.options)


_DECIMAL_NOTE: Final = Note(", with a decimal comma", "read as numbers", Columns(decimal=",", numbers=True))


def notes_on(
    seen: FileSurvey, kinds: Kinds, columns: Columns, source: SourceColumn | None, unused: Collection[str]
) -> list[Note]:
    """Return what is worth knowing of the columns before the records are produced.

    `source` names what the records are of; `unused` are columns of numbers that are no features: their texts make no
    dead letters.
    """
    paths = _meant_as_numbers(seen, kinds, unused)
    features = [path for path in kinds.numbers if path not in unused]
    clock = next(iter(kinds.clocks), None)
    sources = columns.key or (source.paths if source else ())
    times = [] if clock is None else notes_on_times(seen, clock, columns, sources)
    return [
        *notes_on_numbers(seen, paths, kinds.numbers),
        *_stand_ins(seen, features),
        *_directions(seen, features),
        *times,
        *([] if columns.key else _sources(seen, source, clock)),
    ]


def _meant_as_numbers(seen: FileSurvey, kinds: Kinds, unused: Collection[str]) -> list[str]:
    """Return the columns that may be of numbers, some of which are texts."""
    others = {*kinds.ids, *kinds.clocks, *unused}
    return [path for path, column in seen.columns.items() if path not in others and not is_version(path, column)]


def noted_as_numbers(seen: FileSurvey, kinds: Kinds, unused: Collection[str]) -> list[str]:
    """Return the columns of which a note says that their texts are numbers in another way of writing."""
    columns = {path: seen.columns[path] for path in _meant_as_numbers(seen, kinds, unused)}
    return [path for path, column in columns.items() if column.kinds[str] and as_text(column) is not None]


def notes_on_numbers(seen: FileSurvey, paths: Iterable[str], numbers: Collection[str]) -> Iterator[Note]:
    """Yield a note for each kind of text where a number is meant; columns with the same texts share one.

    Columns in `numbers` are meant to be numbers, whatever their texts are.
    """
    groups: defaultdict[Note, list[str]] = defaultdict(list)
    for path in paths:
        column = seen.columns[path]
        if column.kinds[str]:
            if (note := as_text(column)) is not None:
                groups[note].append(path)
            if path in numbers and (note is None or not note.remedy):
                few = column.strange == column.kinds[str] and len(column.words) <= FEW
                values = {text for text in column.words if _VALUE.match(text)}
                if few and column.words > values:
                    groups[_missing(column.words - values)].append(path)
                if note is None and (values or not few):
                    groups[Note(path)].append(path)
        elif column.strange and path in numbers:
            groups[Note(path)].append(path)
    for note, sharing in groups.items():
        most = max((seen.columns[path] for path in sharing), key=lambda column: column.strange)
        several = len(sharing) > 1
        # Records may lack one number or several: with each of these columns there are more, as `dead_letters` has it.
        strange = min(sum(seen.columns[path].strange for path in sharing), seen.records)
        # The same one after others of the column are read as missing.
        example = _short(next(iter(note.change.nulls or texts_with_digits(most)), most.stranger))
        count = f"{'up to ' * several}{strange:,} of {seen.records:,} records, such as {example}"
        what = f"{_listed(sharing)} {'are no numbers' if several else 'is no number'} in {count}"
        text = f"{what}{note.text}" if note.text not in sharing else f"{what}: these would be dead letters"
        unused = sum(seen.columns[path].strange for path in sharing if path in numbers)
        yield Note(text, note.remedy, note.change, dead_letters=min(unused, seen.records))


def missing_in(seen: FileSurvey, features: Iterable[str], times: Sequence[str] = ()) -> str:
    """Return which features that some records have others lack, those of the most records first; empty for none.

    Where many in a row lack one, the `times` of the first of them are named.
    """
    gaps = {path: seen.records - seen.columns[path].present for path in features if path in seen.columns}
    names = []
    for path in sorted((path for path in gaps if gaps[path]), key=lambda each: -gaps[each]):
        column = seen.columns[path]
        is_long = gaps[path] > column.gap >= max(LONG_GAP, gaps[path] / 4)
        since = [str(value) for each in times if (value := find(column.gap_record, parse_path(each))) is not ABSENT]
        where = f" from {' '.join(since)} on" if since else ""
        names.append(f"{path} in {gaps[path]:,}" + (f" ({column.gap:,} in a row{where})" if is_long else ""))
    return f"missing: {some_of(names, _NAMED)} of {counted(seen.records, 'record')}" if names else ""


def as_text(column: Column) -> Note | None:
    """Return the note on a column whose texts are numbers in another way of writing; None for any other."""
    texts = texts_with_digits(column)
    if not texts:
        return None
    if all(map(as_number, texts)):
        return Note(", a number as text", "read as numbers", Columns(numbers=True))
    # 1,234 is more likely a thousand than a fraction.
    if all(as_number(text, marked=True) for text in texts):
        return Note(", with a unit or thousands", "read as numbers", Columns(numbers=True))
    if all(as_number(text, comma=True, marked=True) for text in texts):
        return _DECIMAL_NOTE
    units = {found[1] if (found := _UNIT.fullmatch(text)) else "" for text in texts}
    if "" in units or len(units) > _NAMED:
        return None
    if len(units) == 1 and not column.numbers:
        bare = [without_unit(text, [*units]) for text in texts]
        for comma in (False, True):
            if all(as_number(each, comma=comma, marked=True) for each in bare):
                change = Columns(units=(*units,), decimal="," if comma else None)
                return Note(f", a number with a unit ({', '.join(units)})", "read as numbers", change)
    return Note(f", a number with a unit ({', '.join(sorted(units))}): write numbers alone, all in one unit")


def _missing(texts: set[str]) -> Note:
    return Note(": these would be dead letters", "read as missing", Columns(nulls=tuple(sorted(texts))))


def _stand_ins(seen: FileSurvey, paths: Iterable[str]) -> Iterator[Note]:
    """Yield a note for each number that some columns repeat far beyond all their others, such as -999."""
    found: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for path in paths:
        column = seen.columns[path]
        if len(column.few) <= FEW:
            continue
        # Without the edges themselves, where both stand for something.
        extent = column.high.value - column.low.value - max(map(_gap, (column.low, column.high)))
        for edge in (column.low, column.high):
            beyond = _gap(edge) > max(extent, 0) or edge.value < 0 <= edge.beside
            if edge.count >= FEWEST_STAND_INS and beyond and _STAND_IN.fullmatch(f"{edge.value:g}"):
                found[f"{edge.value:g}"].append((path, edge.count))
    for text, columns in found.items():
        listed, most = _listed([path for path, _ in columns]), max(count for _, count in columns)
        what = f"{text} stands far beyond all other numbers of {listed}, in up to {most:,} of {seen.records:,} records"
        yield Note(f"{what}, and may mean a missing one", "read as missing", Columns(nulls=(text,)))


def _directions(seen: FileSurvey, paths: Iterable[str]) -> Iterator[Note]:
    """Yield a note on the columns of degrees that begin again at 360, by their names or by their steps."""
    found = [path for path in paths if is_direction(path, seen.columns[path])]
    if found:
        are = "are directions" if len(found) > 1 else "is a direction"
        how = "leave it out of input.features, or replace it by two columns, its sine and its cosine"
        yield Note(f"{_listed(found)} {are} in degrees, it seems, and 359 would be far from 1: {how}")


def _gap(edge: Edge) -> float:
    """Return how far the outermost number is from the one beside it."""
    return 0.0 if edge.beside is None else abs(edge.value - edge.beside)


def hardly_varying(column: Column) -> str:
    """Return which number nearly all records have."""
    share = column.same / column.numbers
    return f"{column.common:g} in " + ("all records" if share == 1 else f"{min(100 * share, 99.9):.1f} % of them")


def notes_on_times(seen: FileSurvey, path: str, columns: Columns, sources: Sequence[str]) -> Iterator[Note]:
    """Yield notes on the column of times, unless the records have their times from it already."""
    column = seen.columns[path]
    if nothing := words(column):
        text = f"{path} is no time in some records, such as {_short(nothing[0])}"
        yield Note(text, "read as missing", Columns(nulls=tuple(nothing)))
    if columns.time:
        return
    remedy = "as Kafka timestamps"
    paths = times_of(seen, path)
    if paths[1:]:
        text = f"{path} has dates, and {paths[1]} times of the day, which input.time_path cannot join"
        forms = forms_together(column, seen.columns[paths[1]])
    elif is_rfc3339(column):
        yield Note(f"{path} is taken as input.time_path: outputs name its times, whenever the records are sent")
        return
    else:
        example = _short(column.sample[0])
        text = f"{path} has times that input.time_path cannot read, such as {example}: it reads RFC 3339 with a zone, "
        text += "and milliseconds since 1970"
        forms = [""] if is_time(column) else time_forms(column)
    found = forms_in_order(seen, paths, forms, sources)
    if len(found) == 1:
        if len(forms) > 1:
            others = " or ".join(repr(form) for form in forms if form not in found)
            text += f"; their order says that the form is {found[0]!r}; if it is {others}, say so by --time-form"
        yield Note(text, f"{remedy}, in UTC where no zone is named", Columns(time=paths, time_form=found[0] or None))
    else:
        options = shlex.join(Columns(time=paths).options)
        given = f"{options} --time-form {' or '.join(map(repr, forms)) or 'FORM'}"
        if len(forms) > 1:
            # What to give stands in one line, whatever else the times are.
            read = f"{' and '.join(paths)} can be read in {len(forms)} ways, such as {_short(column.sample[0])}"
            yield Note(f"{read}, so it gives records, alerts and incidents no times; say which: {given}")
        else:
            yield Note(f"{text}; name their form: {given}")


def _sources(seen: FileSurvey, found: SourceColumn | None, clock: str | None) -> Iterator[Note]:
    """Yield a note on the column that names the sources of the records, or on times that go back without one."""
    if found is not None:
        text = found.naming
        if comes_again(seen, found.paths):
            remedy = "a model for each" if found.certain else "to learn which of them changed"
            yield Note(text, remedy, Columns(key=found.paths), advised=found.certain)
        else:
            several = len({*rows_of(seen, *found.paths)}) >= FEWEST_PEERS
            is_compared = several and comes_again(seen, found.paths, COMPARED)
            remedy = "to compare them all the same, with --set stream=key" if is_compared else ""
            change = Columns(key=found.paths) if is_compared else NOTHING
            yield Note(f"{text}, too few of each for a model of its own", remedy, change, advised=False)
    # Of devices one behind the other times begin again, and of many at once some come late.
    if clock is not None and (falls := _falls(seen, clock)) and (found is None or 10 * falls > seen.records):
        text = f"{clock} goes back in {falls:,} of {seen.records:,} records"
        text += "; alerts and drift follow the order of the file: sort it"
        yield Note(text if found else f"{text}, or name its sources by --key")


def _falls(seen: FileSurvey, clock: str) -> int:
    """Return how often the times of enough records go back, as far as their order can be seen."""
    column = seen.columns[clock]
    ordered = seen.records >= FEWEST and (column.only(int, float) or is_time(column))
    return (column.falls or 0) if ordered else 0


def _listed(paths: Sequence[str]) -> str:
    if len(paths) == 1:
        return paths[0]
    if len(paths) <= _NAMED:
        return f"{', '.join(paths[:-1])} and {paths[-1]}"
    return some_of(paths, _NAMED)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
