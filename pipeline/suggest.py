"""Settings that suit records nobody described: numbers become features, ids and times are known by name and value."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from resonance.pipeline.file_jsonl import leaf_paths
from resonance.pipeline.paths import ABSENT, find, parse_path
from resonance.pipeline.settings_file import as_toml
from resonance.pipeline.times import TimeTexts

SAMPLE: Final = 500
"""Records that are looked at."""

MOST_STRANGE: Final = 0.1
"""Share of values that are no number, at most, in a column that is taken for a feature."""

FEW: Final = 12
"""Different texts of a column, at most, for it to be called a category."""

_ID = re.compile(r"(.*[_-])?([iI][dD]|[uUgG][uU][iI][dD])|.*[a-z]I[dD]")
_COUNTER = re.compile(r"(?i)index|row|nr|no|#")
_TIME = re.compile(r"(?i)(.*[_-])?(time|timestamp|ts|date|datetime|at|when|day)|.*time(stamp)?|.*date")
_SECONDS: Final = range(1_000_000_000, 4_000_000_000)
_MILLISECONDS: Final = range(1_000_000_000_000, 4_000_000_000_000)
"""Numbers under the name of a time that are one, and not a duration: from 2001 to 2096."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What the settings could be.

    Attributes
    ----------
    features : list of str or str
        Paths to numbers, or one path to an array of them; empty: nothing is a number.
    id_path, time_path : str or None
        Paths to id and time of the record.
    gaps : bool
        Some features are missing in some records.
    categories : dict of str to list of str
        Texts with few values, which could be features.
    remarks : list of str
        What else is worth knowing.
    """

    features: list[str] | str
    id_path: str | None
    time_path: str | None
    gaps: bool
    categories: dict[str, list[str]]
    remarks: list[str]


def suggest(records: Sequence[dict[str, Any]]) -> Suggestion:
    """Guess the settings from the first records.

    Parameters
    ----------
    records : sequence of dict
        Parsed records; some hundred are enough.
    """
    paths = list(dict.fromkeys(path for record in records for path in leaf_paths(record)))
    columns = {path: _column(records, path) for path in paths}
    times, remarks = TimeTexts(), list[str]()
    ids = [path for path in paths if _names_records(_last(path), columns[path])]
    clocks = [path for path in paths if path not in ids and _tells_time(_last(path), columns[path])]
    usable = [path for path in clocks if all(_is_time(value, times) for value in columns[path])]
    if clocks and not usable:
        remarks.append(
            f"{clocks[0]} looks like a time but is neither RFC 3339 with a zone (2026-01-31T12:00:00Z) nor "
            "milliseconds since 1970, so input.time_path cannot use it"
        )
    numbers: list[str] = []
    for path in paths:
        strange = [value for value in columns[path] if not _is_number(value)]
        if path in ids or path in clocks or len(strange) > MOST_STRANGE * len(columns[path]) or not columns[path]:
            continue
        numbers.append(path)
        if strange:
            remarks.append(
                f"{path} is no number in {len(strange):,} of {len(columns[path]):,} records, such as {strange[0]!r}: "
                "these would be dead letters"
            )
    arrays = [path for path in paths if _all(columns[path], _is_array)]
    features = arrays[0] if arrays and len(columns[arrays[0]][0]) > len(numbers) else numbers
    named = [features] if isinstance(features, str) else features
    if not features:
        remarks.append("No column holds numbers: name those to use as input.features")
    unique = [path for path in ids if _all(columns[path], _is_name) and len(set(columns[path])) == len(records)]
    categories = {}
    for path in paths:
        texts = sorted({value for value in columns[path] if isinstance(value, str)})
        if (
            path not in ids
            and path not in clocks
            and path not in numbers
            and 1 < len(texts) <= FEW
            and len(records) >= 4 * len(texts)
        ):
            categories[path] = texts
    gaps = any(len(columns[path]) < len(records) for path in named)
    best = sorted(unique, key=lambda path: _last(path).lower() != "id")
    return Suggestion(features, next(iter(best), None), next(iter(usable), None), gaps, categories, remarks)


def as_file(found: Suggestion, topic: str, *, name: str, bootstrap: str, stream: str = "partition") -> str:
    """Return a ``resonance.toml`` that reads the records."""
    values: dict[str, Any] = {"name": name, "stream": stream, "broker": {"bootstrap": bootstrap}}
    values["input"] = {"topics": [topic], **({"features": found.features} if found.features else {})}
    if found.id_path:
        values["input"]["id_path"] = found.id_path
    if found.time_path:
        values["input"]["time_path"] = found.time_path
    if found.gaps:
        values["prepare"] = {"missing": "mean"}
    text = as_toml(values)
    if found.categories:
        text += "\n# Texts with few values can be features, too: add them to input.features and here.\n"
        text += "".join(
            f"# {line}\n" for line in as_toml({"prepare": {"categories": found.categories}}).splitlines()[1:]
        )
    return text + "".join(f"\n# {remark}.\n" for remark in found.remarks)


def _column(records: Sequence[dict[str, Any]], path: str) -> list[Any]:
    """Return the values at a path that are not missing."""
    names = parse_path(path)
    values = (find(record, names) for record in records)
    return [value for value in values if value is not ABSENT and value is not None]


def _last(path: str) -> str:
    return parse_path(path)[-1]


def _all(values: list[Any], holds: Any) -> bool:
    return bool(values) and all(map(holds, values))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_name(value: Any) -> bool:
    return type(value) in (str, int)


def _is_array(value: Any) -> bool:
    return isinstance(value, list) and _all(value, _is_number)


def _names_records(name: str, values: list[Any]) -> bool:
    if _ID.fullmatch(name):
        return _all(values, _is_name)
    return bool(_COUNTER.fullmatch(name)) and _all(values, _is_name) and len(set(values)) == len(values)


def _tells_time(name: str, values: list[Any]) -> bool:
    if not _TIME.fullmatch(name):
        return False
    if _all(values, _is_number):
        return all(int(value) in _SECONDS for value in values) or all(int(value) in _MILLISECONDS for value in values)
    return _all(values, lambda value: isinstance(value, str))


def _is_time(value: Any, times: TimeTexts) -> bool:
    if _is_number(value):
        return int(value) in _MILLISECONDS
    try:
        times[value]
    except (ValueError, TypeError):
        return False
    return True
