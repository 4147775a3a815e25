"""Settings that suit undescribed records: numbers become features, ids and times are known by name and value."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from resonance.pipeline.config.file import as_toml
from resonance.pipeline.files.survey import FEW, Column, FileSurvey
from resonance.pipeline.json_paths import escaped, parse_path
from resonance.pipeline.timestamps import TimeTexts

MAX_STRANGE: Final = 0.1
"""Largest share of values that are no number, in a column that is taken for a feature."""

FEWEST_SPARSE: Final = 40
"""Fewest names of numbers in an object that counts as sparse."""

MAX_FULL: Final = 0.5
"""Largest share of these names that a record has on average."""

STREAMS: Final = {
    "topic": 'one model for all records; "partition": one for each partition, "key": one for each key',
    "partition": 'one model for each partition; "key": one for each key, "topic": one for all records',
}
"""What a choice of `stream` means, beside the others."""

_ID = re.compile(r"(.*[_-])?([iI][dD]|[uUgG][uU][iI][dD])|.*[a-z]I[dD]")
_COUNTER = re.compile(r"(?i)index|row|nr|no|#")
_TIME = re.compile(r"(?i)(.*[_-])?(time|timestamp|ts|date|datetime|at|when|day)|.*time(stamp)?|.*date")
_SECONDS: Final = range(1_000_000_000, 4_000_000_000)
_MILLISECONDS: Final = range(1_000_000_000_000, 4_000_000_000_000)
"""Numbers that count as a time, and not as a duration, where the name is one of a time: from 2001 to 2096."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Settings that suit the records."""

    features: list[str] | str
    """Paths to numbers, or one path to an array of them; empty where nothing is a number, or numbers are sparse."""
    sparse: str | None
    """Path to an object name -> number of which each record has only a few names."""
    id_path: str | None
    time_path: str | None
    gaps: bool
    """Whether some features are missing in some records."""
    categories: dict[str, list[str]]
    """Texts with few values, by path; they could be features."""
    remarks: list[str]
    """Other findings that are worth knowing."""


def suggest(seen: FileSurvey) -> Suggestion:
    """Guess the settings from what the columns hold.

    Some hundred records are enough; with all of them nothing is missed.
    """
    columns = seen.columns
    times, remarks = TimeTexts(), list[str]()
    ids = [path for path, column in columns.items() if _names_records(_last(path), column)]
    clocks = [path for path, column in columns.items() if path not in ids and _tells_time(_last(path), column)]
    usable = [path for path in clocks if all(_is_time(value, times) for value in columns[path].sample)]
    if clocks and not usable:
        remarks.append(
            f"{clocks[0]} looks like a time but is neither RFC 3339 with a zone (2026-01-31T12:00:00Z) nor "
            "milliseconds since 1970, so input.time_path cannot use it"
        )
    numbers: list[str] = []
    for path, column in columns.items():
        if path in ids or path in clocks or not column.numbers or column.strange > MAX_STRANGE * column.present:
            continue
        numbers.append(path)
        if column.strange:
            remarks.append(
                f"{path} is no number in {column.strange:,} of {column.present:,} records, such as "
                f"{_short(column.stranger)}: these would be dead letters"
            )
    sparse = _sparse_object(numbers, seen)
    if sparse is not None:
        remarks.append(f"{sparse} has few of its many names in each record, so they are taken for sparse")
        values = [value for path in numbers if _parent(path) == sparse for value in columns[path].sample]
        if any(type(value) in (int, float) and value > 1 for value in values):
            remarks.append('Its values go beyond 1, which is what they become: say prepare.ranges, for "*"')
        numbers = []
    arrays = [path for path, column in columns.items() if column.only(list) and all(map(_is_array, column.sample))]
    features = arrays[0] if arrays and len(columns[arrays[0]].sample[0]) > len(numbers) else numbers
    named = [features] if isinstance(features, str) else features
    if not features and sparse is None:
        remarks.append("No column holds numbers: name those to use as input.features")
    unique = [path for path in ids if columns[path].unique and columns[path].present == seen.records]
    categories = {
        path: sorted(column.words)
        for path, column in columns.items()
        if path not in (*ids, *clocks, *numbers)
        and 1 < len(column.words) <= FEW
        and seen.records >= 4 * len(column.words)
    }
    gaps = any(columns[path].present < seen.records for path in named)
    best = sorted(unique, key=lambda path: _last(path).lower() != "id")
    return Suggestion(features, sparse, next(iter(best), None), next(iter(usable), None), gaps, categories, remarks)


def as_file(
    found: Suggestion, topic: str, *, name: str, bootstrap: str, stream: Literal["partition", "topic"] = "partition"
) -> str:
    """Return a ``resonance.toml`` that reads the records."""
    values: dict[str, Any] = {"name": name, "stream": stream, "broker": {"bootstrap": bootstrap}}
    values["input"] = {"topics": [topic], **({"features": found.features} if found.features else {})}
    if found.sparse is not None:
        values["input"]["sparse"] = found.sparse
        values["engine"] = {"name": "sa_art"}
    if found.id_path:
        values["input"]["id_path"] = found.id_path
    if found.time_path:
        values["input"]["time_path"] = found.time_path
    if found.gaps:
        values["prepare"] = {"missing": "mean"}
    text = as_toml(values).replace(f'stream = "{stream}"', f'stream = "{stream}"  # {STREAMS[stream]}', 1)
    if found.categories:
        text += "\n# Texts with few values can be features, too: add them to input.features and here.\n"
        text += "".join(
            f"# {line}\n" for line in as_toml({"prepare": {"categories": found.categories}}).splitlines()[1:]
        )
    return text + "".join(f"\n# {remark}.\n" for remark in found.remarks)


def _last(path: str) -> str:
    return parse_path(path)[-1]


def _parent(path: str) -> str:
    """Return the path of the object that holds a member; empty for the record itself."""
    return ".".join(map(escaped, parse_path(path)[:-1]))


def _sparse_object(numbers: Sequence[str], seen: FileSurvey) -> str | None:
    """Return the object with the most names of which the records have only few; None where there is none."""
    groups: dict[str, list[str]] = {}
    for path in numbers:
        groups.setdefault(_parent(path), []).append(path)
    groups.pop("", None)
    for parent, paths in sorted(groups.items(), key=lambda group: -len(group[1])):
        present = sum(seen.columns[path].present for path in paths)
        if len(paths) >= FEWEST_SPARSE and present <= MAX_FULL * len(paths) * seen.records:
            return parent
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_array(value: Any) -> bool:
    return bool(value) and all(type(element) in (int, float) for element in value)


def _names_records(name: str, column: Column) -> bool:
    if not column.only(str, int):
        return False
    return bool(_ID.fullmatch(name)) or (bool(_COUNTER.fullmatch(name)) and column.unique)


def _tells_time(name: str, column: Column) -> bool:
    if not _TIME.fullmatch(name):
        return False
    if column.only(int, float):
        return any(all(int(value) in those for value in column.sample) for those in (_SECONDS, _MILLISECONDS))
    return column.only(str)


def _is_time(value: Any, times: TimeTexts) -> bool:
    if type(value) in (int, float):
        return int(value) in _MILLISECONDS
    try:
        times[value]
    except (ValueError, TypeError):
        return False
    return True
