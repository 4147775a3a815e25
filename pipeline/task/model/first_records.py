"""The first usable records of a partition, where they decide what a single feature path leads to.

They are answered like a warm-up and held back. When there are enough of them the majority decides, and those that have
its features are given to their models.
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
"""Longest state: with four bytes for three, as the partition record has it, well below what a topic takes."""


class HeldRecord(NamedTuple):
    """A record that waits for the decision.

    Attributes
    ----------
    offset : int
        Its place in the log.
    key : bytes or None
        Key of its stream.
    shape : Shape
        What the feature path leads to in it.
    row : list of float
        Its features, as `Layout.row` gives them.
    size : int
        Bytes of its value.
    labels : tuple of str or None
        Its labels, where the engine is taught by labels.
    """

    offset: int
    key: bytes | None
    shape: Shape
    row: list[float]
    size: int
    labels: Labels | None = None


class FirstRecords:
    """Holds records back until it is known which features they should have.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held: list[HeldRecord] = []
        # The state and where the records that it leaves out begin, until the next record.
        self._kept: tuple[dict[str, Any], int | None] | None = None
        # What the model of a key would be given if a shape won: a record that it could not prepare is told so at once.
        self._preparations: dict[tuple[bytes | None, Shape], Preparation | None] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that `state` leaves out; None when it has them all."""
        return self._state_and_rest()[1]

    @property
    def end(self) -> int:
        """Offset behind the last record; 0 without any."""
        return self._held[-1].offset + 1 if self._held else 0

    @property
    def keys(self) -> set[bytes | None]:
        """Keys of the streams of the records."""
        return {record.key for record in self._held}

    def hold(self, record: HeldRecord) -> None:
        """Keep a record.

        Raises
        ------
        FaultError
            It could not be learned: its model would refuse it.
        """
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
        """Return what prepares the records of a key and a shape; None where the settings do not fit the shape."""
        if (key, shape) not in self._preparations:
            try:
                made = self._settings.preparation(Layout(self._settings, shape).features)
            except ParameterError:
                # It is an error only if this shape wins, and then told where the stream begins.
                made = None
            self._preparations[key, shape] = made
        return self._preparations[key, shape]

    def majority(self) -> tuple[Shape, int]:
        """Return the shape that most records have, and how many; of equally frequent ones the first seen."""
        return Counter(record.shape for record in self._held).most_common(1)[0]

    def release(self, shape: Shape | None) -> dict[bytes | None, list[HeldRecord]]:
        """Return the records of a shape by the key of their stream, in order; nothing is held any more."""
        groups: dict[bytes | None, list[HeldRecord]] = {}
        for record in self._held:
            if record.shape == shape:
                groups.setdefault(record.key, []).append(record)
        self._held = []
        self._preparations = {}
        self._kept = None
        return groups

    def state(self) -> dict[str, Any]:
        """Return the records as JSON has them; without any where they would be too long, then they are read again."""
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
        """Hold the records of a `state`, but for those that this release can no longer prepare.

        Raises
        ------
        KeyError, TypeError, ValueError, IndexError
            It is not one.
        """
        shapes = [shape for shape in map(shape_from, content["shapes"]) if shape is not None]
        for offset, text, place, row, size, *labels in content["records"]:
            key = None if text is None else str(text).encode("latin-1")
            numbers = [float("nan") if value is None else float(value) for value in row]
            with contextlib.suppress(FaultError):
                own = tuple(map(str, labels[0])) if labels else None
                self.hold(HeldRecord(int(offset), key, shapes[place], numbers, int(size), own))
