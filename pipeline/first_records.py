"""The first usable records of a partition, where they decide what a single feature path leads to.

They are answered like a warm-up and held back. When there are enough of them the majority decides, and those that have
its features are given to their models.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from resonance.engine.errors import ParameterError
from resonance.engine.prepare import Preparation
from resonance.pipeline.faults import FaultError
from resonance.pipeline.layout import Layout, Shape
from resonance.pipeline.settings import Settings


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
    """

    offset: int
    key: bytes | None
    shape: Shape
    row: list[float]
    size: int


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
        # What the model of a key would be given if a shape won: a record that it could not prepare is told so at once.
        self._preparations: dict[tuple[bytes | None, Shape], Preparation | None] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def begin(self) -> int | None:
        """Offset of the first record; None without any."""
        return self._held[0].offset if self._held else None

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
        return groups
