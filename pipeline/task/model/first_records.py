"""The first usable records of a partition, where they decide what a single feature path leads to.

They are held back and get the assignments of a warm-up. When there are enough of them the majority decides, and the
records that have its features go to their models.
"""

import contextlib
from collections import Counter
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from resonance.engine.errors import ParameterError
from resonance.engine.prepare import Preparation
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.decode.dense import Layout, Shape, shape_as_json, shape_from
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.labels import Labels

STATE_BYTES: Final = 300_000
"""Bytes of the longest state; the partition record has four bytes for three, still well below what a topic takes."""


class HeldRecord(NamedTuple):
    """A record that waits for the decision."""

    offset: int
    key: bytes | None
    """Key of its stream."""
    shape: Shape
    """What the feature path leads to in this record."""
    row: list[float]
    """Its features, as `Layout.row` returns them."""
    size: int
    """Bytes of its value."""
    labels: Labels | None = None
    """Its labels, where the engine learns labels."""


class FirstRecords:
    """Holds records back until the features of the partition are decided."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held: list[HeldRecord] = []
        # The state and the offset of the first record that it leaves out; valid until the next record.
        self._kept: tuple[dict[str, Any], int | None] | None = None
        # What would prepare the records of a key if a shape won: a record that cannot be prepared is refused at once.
        self._preparations: dict[tuple[bytes | None, Shape], Preparation | None] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that `state` leaves out; None when it holds all records."""
        return self._state_and_rest()[1]

    @property
    def end(self) -> int:
        """Offset behind the last record; 0 without records."""
        return self._held[-1].offset + 1 if self._held else 0

    @property
    def keys(self) -> set[bytes | None]:
        """Keys of the streams that the records belong to."""
        return {record.key for record in self._held}

    def hold(self, record: HeldRecord) -> None:
        """Hold a record back; raise `FaultError` if its model would refuse it."""
        preparation = self._preparation(record.key, record.shape)
        if preparation is not None:
            row = np.array([record.row])
            if problems := preparation.check(row):
                raise FaultError("limit", "out_of_range", problems[0])
            if not preparation.ready:
                preparation.hold(row)
                if preparation.wanted == 0:
                    preparation.freeze()
        self._held.append(record)
        self._kept = None

    def _preparation(self, key: bytes | None, shape: Shape) -> Preparation | None:
        """Return the preparation for the records of a key and a shape; None where the settings do not fit the shape."""
        if (key, shape) not in self._preparations:
            try:
                made = self._settings.preparation(Layout(self._settings, shape).features)
            except ParameterError:
                # It is an error only if this shape wins, and then raised where the stream begins.
                made = None
            self._preparations[key, shape] = made
        return self._preparations[key, shape]

    def majority(self) -> tuple[Shape, int]:
        """Return the most frequent shape and its number of records; of equally frequent shapes the first seen."""
        return Counter(record.shape for record in self._held).most_common(1)[0]

    def release(self, shape: Shape | None) -> dict[bytes | None, list[HeldRecord]]:
        """Stop holding records; return those of a shape in order, by the key of their stream."""
        groups: dict[bytes | None, list[HeldRecord]] = {}
        for record in self._held:
            if record.shape == shape:
                groups.setdefault(record.key, []).append(record)
        self._held = []
        self._preparations = {}
        self._kept = None
        return groups

    def state(self) -> dict[str, Any]:
        """Return the records for JSON; none where they would be too long, and recovery reads them again."""
        return self._state_and_rest()[0]

    def _state_and_rest(self) -> tuple[dict[str, Any], int | None]:
        if self._kept is None:
            shapes = list(dict.fromkeys(record.shape for record in self._held))
            # A byte is a character here, and NaN is null.
            texts = [None if record.key is None else record.key.decode("latin-1") for record in self._held]
            records = [
                [record.offset, text, shapes.index(record.shape), record.row, record.size]
                + ([] if record.labels is None else [list(record.labels)])
                for record, text in zip(self._held, texts, strict=True)
            ]
            state = {"shapes": list(map(shape_as_json, shapes)), "records": records}
            if len(orjson.dumps(state)) <= STATE_BYTES:
                self._kept = state, None
            else:
                self._kept = {"shapes": [], "records": []}, self._held[0].offset
        return self._kept

    def restore(self, content: Any) -> None:
        """Hold the records of a `state` again, except those that this release can no longer prepare."""
        shapes = [shape for shape in map(shape_from, content["shapes"]) if shape is not None]
        for offset, text, place, row, size, *labels in content["records"]:
            key = None if text is None else str(text).encode("latin-1")
            numbers = [float("nan") if value is None else float(value) for value in row]
            with contextlib.suppress(FaultError):
                own = tuple(map(str, labels[0])) if labels else None
                self.hold(HeldRecord(int(offset), key, shapes[place], numbers, int(size), own))
