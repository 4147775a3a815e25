"""Why a column of a file is used for nothing, so that none goes without a word."""

from collections.abc import Collection

from resonance.pipeline.files.clocks import is_time_of_day
from resonance.pipeline.files.kinds import Kinds, is_version
from resonance.pipeline.files.survey import MAX_SOURCES, Column, FileSurvey


def unused_in(seen: FileSurvey, kinds: Kinds, said: Collection[str], features: str) -> dict[str, str]:
    """Return why the columns of which nothing is `said` are not used, by path.

    `features` are what the numbers of the records are, where these are of one column or object; empty for others.
    """
    return {
        path: _reason(path, column, seen.records, kinds, features)
        for path, column in seen.columns.items()
        if path not in said
    }


def too_many(column: Column) -> bool:
    """Return whether there are too many different texts for a category."""
    return column.only(str) and column.counts is None


def _reason(path: str, column: Column, records: int, kinds: Kinds, features: str) -> str:
    if not column.present:
        return "no value in any record"
    if path in kinds.clocks or is_time_of_day(column):
        return "names a version" if is_version(path, column) else "another time of the records"
    if path in kinds.ids:
        return "an id by its name"
    if path in kinds.numbers:
        return f"a number beside {features}" if features else "a number"
    if len(column.words) == 1 and column.only(str):
        text = _short(next(iter(column.words)))
        rest = "all" if column.present == records else f"{column.present:,} of {records:,}"
        return f"{text} in {rest} records, and no other text"
    if column.only(str):
        if column.unique:
            return "another text in each record"
        return f"more than {MAX_SOURCES:,} different texts" if too_many(column) else "numbers in texts"
    return "lists" if column.only(list) else "neither texts nor numbers alone"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
