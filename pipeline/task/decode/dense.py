"""Where the features stand in a record, and how a whole batch of them is extracted at once.

The settings decide the layout; where they leave it open, the first usable record of a partition does.
"""

import struct
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from resonance.engine.base import FloatArray
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.config.values import category_text
from resonance.pipeline.json_paths import ABSENT, Path, find, parse_path, path_name
from resonance.pipeline.task.decode.faults import FaultError

UNKNOWN = -1.0
"""Number of a category's value that the settings do not list."""


class Shape(NamedTuple):
    """What a single feature path leads to."""

    length: int
    """Length of the array; 0 for an object."""
    names: tuple[str, ...]
    """Names in the object, sorted; empty for an array."""


def shape_as_json(shape: Shape | None) -> dict[str, Any] | None:
    """Return a shape in the form that states hold."""
    return None if shape is None else shape._asdict()


def shape_from(content: Any) -> Shape | None:
    """Return the shape that `shape_as_json` wrote."""
    return None if content is None else Shape(int(content["length"]), tuple(map(str, content["names"])))


class FeatureGroup(NamedTuple):
    """Numbers in the same container of a record: their keys there, and their columns."""

    container: Path
    keys: tuple[str | int, ...]
    columns: tuple[int, ...]


class _Category(NamedTuple):
    container: Path
    key: str | int
    column: int
    values: dict[str, float]


class Layout:
    """Extracts rows of numbers from parsed records; without a shape the settings must list the features.

    `features` holds the names of the columns.
    """

    def __init__(self, settings: Settings, shape: Shape | None = None) -> None:
        self._settings = settings
        self.shape = shape
        self._length = shape.length if shape else 0
        self._accepts_missing = settings.prepare.missing != "reject"
        places: list[tuple[Path, str | int]]
        if shape is None:
            paths = [parse_path(text) for text in _listed(settings)]
            places = [(path[:-1], path[-1]) for path in paths]
            self.features = tuple(map(path_name, _listed(settings)))
            self._written = list(_listed(settings))
        else:
            container = parse_path(str(settings.input.features))
            keys: Sequence[str | int] = shape.names or range(shape.length)
            places = [(container, key) for key in keys]
            self.features = shape.names or tuple(f"f{i}" for i in range(shape.length))
            self._written = [
                f"{settings.input.features}.{key}" if shape.names else f"{settings.input.features}[{key}]"
                for key in keys
            ]
        self._places = places
        self._tables: dict[int, dict[str, float]] = {}
        for column, feature in enumerate(self.features):
            if feature in settings.prepare.categories:
                values = settings.prepare.categories[feature]
                self._tables[column] = {value: float(place) for place, value in enumerate(values)}
        self._groups: list[FeatureGroup] = []
        by_container: dict[Path, list[int]] = {}
        for column, (container, _) in enumerate(places):
            if column not in self._tables:
                by_container.setdefault(container, []).append(column)
        for container, columns in by_container.items():
            self._groups.append(FeatureGroup(container, tuple(places[c][1] for c in columns), tuple(columns)))
        self._categories = [_Category(*places[c], c, table) for c, table in self._tables.items()]
        self.openings = 1 + len({container[: i + 1] for container, _ in places for i in range(len(container))})
        """Fewest objects and arrays that a record with these features opens."""

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return len(self.features)

    @property
    def only_group(self) -> FeatureGroup | None:
        """Where all columns stand if that is one array or one object; None otherwise, or if one is a category."""
        return self._groups[0] if len(self._groups) == 1 and not self._categories else None

    def is_category(self, column: int) -> bool:
        """Return whether a column has the places of a category's values."""
        return column in self._tables

    def rows(self, objects: list[dict[str, Any]]) -> FloatArray:
        """Return the rows of a batch of usable records, one column for each feature.

        A feature that may be missing is NaN where it is; a category is the place of its value in the settings, or -1.
        If a record is not usable, `KeyError`, `TypeError`, `ValueError` or `IndexError` is raised, and `row` says why.
        """
        count = len(objects)
        if (only := self.only_group) is not None:
            return self._numbers(objects, only).reshape(count, -1)
        rows = np.empty((count, self.dimension))
        for group in self._groups:
            rows[:, group.columns] = self._numbers(objects, group).reshape(count, -1)
        for category in self._categories:
            rows[:, category.column] = self._places_of(objects, category)
        return rows

    def stacked(self, rows: Sequence[Sequence[float]]) -> FloatArray:
        """Return rows from `row` as one batch."""
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.dimension)

    def joined(self, parts: Sequence[FloatArray]) -> FloatArray:
        """Return the rows of several batches as one batch."""
        return np.concatenate([np.empty((0, self.dimension)), *parts])

    def _containers(self, objects: list[dict[str, Any]], path: Path) -> list[Any]:
        containers: list[Any] = objects
        for name in path:
            containers = list(map(itemgetter(name), containers))
        if self._length:
            if set(map(type, containers)) != {list} or set(map(len, containers)) != {self._length}:
                raise ValueError("not arrays of the right length")
        elif path and set(map(type, containers)) != {dict}:
            raise TypeError("not objects")
        return containers

    def _numbers(self, objects: list[dict[str, Any]], group: FeatureGroup) -> FloatArray:
        containers = self._containers(objects, group.container)
        flat = self._flat(containers, group)
        try:
            return as_floats(flat)
        except TypeError:
            if not self._accepts_missing:
                raise
        return as_floats([np.nan if value is None else value for value in flat])

    def _flat(self, containers: list[Any], group: FeatureGroup) -> list[Any]:
        if self._length and len(group.keys) == self._length:
            return list(chain.from_iterable(containers))
        get: Callable[[Any], Any] = itemgetter(*group.keys)
        try:
            if len(group.keys) == 1:
                return list(map(get, containers))
            return list(chain.from_iterable(map(get, containers)))
        except KeyError:
            if not self._accepts_missing:
                raise
        return [container.get(key) for container in containers for key in group.keys]

    def _places_of(self, objects: list[dict[str, Any]], category: _Category) -> list[float]:
        containers = self._containers(objects, category.container)
        values = list(map(itemgetter(category.key), containers))
        if set(map(type, values)) != {str}:
            raise TypeError("not text")
        place = category.values.get
        return [place(value, UNKNOWN) for value in values]

    def row(self, record: dict[str, Any]) -> list[float]:
        """Return the row of one record; a `FaultError` says why it has none."""
        if self.shape is not None:
            found = feature_shape(record, self._settings)
            if bool(self.shape.names) != bool(found.names):
                kind = "an object name -> number" if self.shape.names else "an array of numbers"
                raise FaultError("validate", "wrong_type", f"{self._where()} must be {kind}, as in the first record")
            if found.length != self._length:
                raise FaultError(
                    "validate",
                    "wrong_dimension",
                    f"{self._where()} has {found.length:,} numbers, the first record has {self._length:,}; "
                    "send records of one dimension, or a deployment for each",
                )
        return [self._value(record, column) for column in range(self.dimension)]

    def _where(self) -> str:
        return str(self._settings.input.features)

    def _value(self, record: dict[str, Any], column: int) -> float:
        path, key = self._places[column]
        value = find(record, path)[key] if isinstance(key, int) else find(record, (*path, key))
        table = self._tables.get(column)
        if value is ABSENT or value is None:
            if not self._accepts_missing:
                raise FaultError(
                    "validate",
                    "missing_feature",
                    f"{self._written[column]} is {kind_of(value)}; send it, or set prepare.missing to mean or a number",
                )
            return np.nan if table is None else UNKNOWN
        if table is not None:
            try:
                return table.get(category_text(value), UNKNOWN)
            except ValueError:
                raise FaultError(
                    "validate",
                    "wrong_type",
                    f"{self._written[column]} is {kind_of(value)}; a category is text, an integer or a boolean",
                ) from None
        return number_of(value, self._written[column])


def _listed(settings: Settings) -> tuple[str, ...]:
    features = settings.input.features
    if isinstance(features, str):
        raise TypeError("the settings name one path: what it leads to must be known")
    return features


def number_of(value: Any, where: str) -> float:
    """Return a value as a float, or raise `FaultError` if it is not a number."""
    if type(value) is not float and type(value) is not int:
        raise FaultError("validate", "wrong_type", f"{where} is {kind_of(value)}, not a number")
    return float(value)


def feature_shape(record: dict[str, Any], settings: Settings) -> Shape:
    """Return what the single feature path leads to in a record.

    Raises `FaultError` if that is missing, empty, or neither an array nor an object.
    """
    where = str(settings.input.features)
    value = find(record, parse_path(where))
    if isinstance(value, list):
        shape = Shape(len(value), ())
    elif isinstance(value, dict):
        shape = Shape(0, tuple(sorted(value)))
    elif value is ABSENT or value is None:
        text = f"{where} is {kind_of(value)}; it is where input.features looks for the features"
        raise FaultError("validate", "missing_feature", text)
    else:
        raise FaultError(
            "validate", "wrong_type", f"{where} is {kind_of(value)}, neither an array nor an object name -> number"
        )
    if not value:
        raise FaultError("validate", "wrong_dimension", f"{where} is empty: a record has at least one feature")
    return shape


def kind_of(value: Any) -> str:
    """Return in words what kind of JSON value this is, or that it is missing (`ABSENT`)."""
    if value is ABSENT or value is None:
        return "null" if value is None else "missing"
    if isinstance(value, bool):
        return "a boolean"
    kinds: dict[type, str] = {str: "text", dict: "an object", list: "an array", int: "an integer"}
    return kinds.get(type(value), "a number")


def as_floats(values: list[Any]) -> FloatArray:
    """Return numbers as an array; TypeError where something is none, such as a boolean or a text."""
    kinds = list(map(type, values))
    # Most batches hold nothing but floats, and to count is cheaper than a set.
    if kinds.count(float) != len(kinds) and not set(kinds) <= {float, int}:
        raise TypeError("not numbers")
    packed = bytearray(8 * len(values))
    # Less than half the time of numpy.
    struct.pack_into(f"{len(values)}d", packed, 0, *values)
    return np.frombuffer(packed, np.float64)
