"""How far the names of a column say what the numbers beside them are, and the columns of which that says something."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.pipeline.errors import some_of
from resonance.pipeline.files.kinds import Kinds, grows, is_constant, is_counter, last, names_kinds
from resonance.pipeline.files.proofs import values_of
from resonance.pipeline.files.survey import FEWEST, FileSurvey
from resonance.pipeline.json_paths import ABSENT

MOST: Final = 0.5
"""Part of the variance of a number from which on names explain most of it."""

DIFFERS: Final = 0.05
"""The same from which on it differs between them, far beyond chance with `FEWEST` records of a name."""

PARTS: Final = 4
"""Parts of a file, in each of which the names come that go through all of it."""

THROUGHOUT: Final = 0.75
"""Part of the names that do so, at least: one or another may begin late, or be silent at the end."""

MOST_NAMES: Final = 20
"""Most names of what is made, or of who does something, in a column that is not known by its names alone."""

MOST_NUMBERS: Final = 100
"""Most numbers that are compared with the names: of an object with any number of them the first ones say enough."""

_LISTED: Final = 3

_ACTOR = re.compile(
    r"(?i)(.*[^a-z])?(acquirer|acquiring[ ._-]?bank|bank|issuer|merchant|vendor|supplier|seller|dealer|retailer"
    r"|provider|carrier|courier|airline|tenant|account|partner|agency|company|branch|filiale|outlet|restaurant|hotel"
    r"|clinic|hospital|ward|warehouse|depot|hub|region|market|exchange|venue|gateway|psp|endpoint|api|app|application"
    r"|queue|topic|cluster|cell|line|linie|belt|zone|kunde|haendler|h(ae|ä)ndler|lieferant|anlage|maschine|ger(ae|ä)t"
    r"|standort|werk)([ ._-]?(id|name|no|nr|key|code))?"
)
"""Who or what does what the records are of, beside what is called a source whatever its numbers are."""

_MADE = re.compile(
    r"(?i)(.*[^a-z])?(recipe|product|grade|program(me)?|sku|material|article|variant|formula(tion)?|blend|workpiece"
    r"|part([ ._-]?(type|no|nr|number))?|rezept(ur)?|produkt|sorte|programm|artikel|werkstoff|werkst(ue|ü)ck|variante)"
    r"([ ._-]?(id|name|no|nr|number|code))?"
)
"""What is made, or how: the machine is set for it."""

_PROGRAM = re.compile(r"(?i)(.*[^a-z])?program(me|m)?([ ._-]?(id|name|no|nr|number|code))?")
"""What may be a recipe, or the step that a machine is at."""

_CATEGORY = re.compile(
    r"(?i)(.*[^a-z])?(currency|method|mode|modus|status|state|zustand|type|typ|kind|art|class|klasse|category|kategorie"
    r"|result|ergebnis|outcome|code|scheme|country|land|version|firmware|release|level|severity|priority|reason|grund"
    r"|gender|sex|language|shift|schicht|weekday|day|month|season|phase|step|stage|unit|einheit|quality|event|alarm"
    r"|error|message|role|protocol|verb|action|format|size|colou?r|flag|label|tier|plan|channel|campaign)"
    r"([ ._-]?(id|name|no|nr|number|code))?"
)
"""What says of which kind records are, or how it went, and not whose they are."""


def actor_of(seen: FileSurvey, kinds: Kinds, paths: Sequence[str]) -> tuple[str, str, bool] | None:
    """Return the column that names who does what irregular records are of, why, and whether its name says so too.

    Transactions have neither equal counts nor times that come again. What they have of a source is that its names go
    through the whole file, and that numbers differ between them by far more than chance.
    """
    unsure = None
    # As with sources, of several columns that with the most names.
    for path in sorted(paths, key=lambda each: -len(seen.columns[each].counts or ())):
        is_named = is_actor(path)
        is_category = is_kind(path) or bool(_MADE.fullmatch(last(path)))
        is_text = seen.columns[path].only(str) and len(seen.columns[path].counts or ()) <= MOST_NAMES
        if not (is_named or (is_text and not is_category)) or not goes_through(seen, path):
            continue
        how = f"{len(seen.columns[path].counts or ()):,} names through the whole file"
        if differing := [each for each, share in explained(seen, kinds, (path,)) if share >= DIFFERS]:
            how += f", between which {some_of(differing, _LISTED)} differ{'s' if len(differing) == 1 else ''}"
            if is_named:
                return path, how, True
        if (differing or is_named) and unsure is None:
            unsure = path, how, False
    return unsure


def made_by(seen: FileSurvey, kinds: Kinds, sources: Sequence[str]) -> list[tuple[str, str]]:
    """Return the columns of what is made, that of the fewest names first, and what they explain of each source."""
    found = [each for each in explaining(seen, kinds, sources) if _MADE.fullmatch(last(each[0]))]
    return sorted(found, key=lambda each: len(seen.columns[each[0]].counts or ()))


def is_kind(path: str) -> bool:
    """Return whether a column is called like the kind or the state of a record."""
    return bool(_CATEGORY.fullmatch(last(path)))


def is_actor(path: str) -> bool:
    """Return whether a column is called like who does something, or like one of several machines."""
    return bool(_ACTOR.fullmatch(last(path)))


def is_product(path: str) -> bool:
    """Return whether a column is called like what is made, and not like a program, which may be a step of it."""
    return bool(_MADE.fullmatch(last(path))) and not _PROGRAM.fullmatch(last(path))


def no_products(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are not called like what is made."""
    return tuple(path for path in paths if not _MADE.fullmatch(last(path)))


def explaining(seen: FileSurvey, kinds: Kinds, sources: Sequence[str]) -> list[tuple[str, str]]:
    """Return the columns of a few texts that explain most of a number of the sources, and what each of them explains.

    Their names go through the whole file: those of a version that is new say when something changed. What is called
    like a state is measured with the numbers, and no reason for them.
    """
    found = []
    for path, column in seen.columns.items():
        is_few = column.counts is not None and 1 < len(column.counts) <= MOST_NAMES
        if path in (*sources, *kinds.labels, *kinds.clocks) or not (column.only(str) and is_few) or is_kind(path):
            continue
        if not goes_through(seen, path):
            continue
        if most := [(each, share) for each, share in explained(seen, kinds, (path,), sources) if share >= MOST]:
            shares = [f"{100 * share:.0f} % of {each}" for each, share in most]
            found.append((path, some_of(shares, _LISTED)))
    return found


def goes_through(seen: FileSurvey, path: str) -> bool:
    """Return whether nearly all names of a column come in each part of the file."""
    names = [each for each in values_of(seen.spaced, path) if each is not None and each is not ABSENT]
    if len(names) < FEWEST:
        return False
    ends = [len(names) * part // PARTS for part in range(PARTS + 1)]
    parts = [{*names[begin:end]} for begin, end in pairwise(ends)]
    return len(set.intersection(*parts)) >= THROUGHOUT * len(set.union(*parts))


def explained(
    seen: FileSurvey, kinds: Kinds, paths: Sequence[str], sources: Sequence[str] = ()
) -> list[tuple[str, float]]:
    """Return the measured numbers, those of which names explain most first, and the part of the variance of each.

    It is that of ranks, so that single numbers far off say nothing, within `sources`, beyond that of names drawn by
    chance: the adjusted R².
    """
    wider = _groups(seen, sources)
    groups = _groups(seen, (*sources, *paths))
    found = []
    for path in kinds.numbers[:MOST_NUMBERS]:
        column = seen.columns[path]
        no_measure = grows(column, seen.records) or is_counter(column, seen.records) or names_kinds(path, column)
        if no_measure or is_constant(column, seen.records) or path in (*sources, *paths):
            continue
        values = [each if type(each) in (int, float) else np.nan for each in values_of(seen.spaced, path)]
        numbers = np.array(values, np.float64)
        known = ~np.isnan(numbers)
        if np.count_nonzero(known) >= FEWEST:
            ranks = _ranks(numbers[known])
            spread, within = _variance(ranks, wider[known]), _variance(ranks, groups[known])
            if spread > 0:
                found.append((path, 1 - within / spread))
    return sorted(found, key=lambda each: -each[1])


def _groups(seen: FileSurvey, paths: Iterable[str]) -> IntArray:
    """Return the number of the group of each record: of those with the same names."""
    numbers: dict[tuple[Any, ...], int] = {}
    columns = [values_of(seen.spaced, path) for path in paths]
    rows = zip(*columns, strict=True) if columns else [()] * len(seen.spaced)
    return np.array([numbers.setdefault(tuple(row), len(numbers)) for row in rows], np.int64)


def _ranks(numbers: FloatArray) -> FloatArray:
    """Return the ranks of numbers; those of equal ones are their mean."""
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends: FloatArray = np.cumsum(counts).astype(np.float64)
    return (ends - (counts - 1) / 2)[places]


def _variance(ranks: FloatArray, groups: IntArray) -> float:
    """Return the variance within groups, without bias."""
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.bincount(places, ranks) / counts
    free = len(ranks) - len(counts)
    return float(np.square(ranks - means[places]).sum() / free) if free > 0 else 0.0
