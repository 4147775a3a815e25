"""The watch of a stream's records in the pipeline: its state, its cells, and what links its events."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import Engine, FloatArray, IntArray
from resonance.engine.drift import STRIDE, ChangedChannel, DriftChange, DriftWatch
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.state import pack, unpack

KIND: Final = "stream_drift"
REVISION: Final = 1

_LINKED: Final = 8
"""Holds after the end of an episode up to which a change can continue it."""
_MOST_MOVES: Final = 160

Move = tuple[int, int, int]
"""Unit, feature and direction in which a change moved it."""


class Marks(NamedTuple):
    """Offsets and times, in milliseconds since 1970, of some rows."""

    offsets: IntArray
    times: IntArray

    @classmethod
    def numbered(cls, rows: int) -> Self:
        """Return the marks of rows that have no place in a log."""
        return cls(np.arange(rows), np.zeros(rows, dtype=np.int64))

    def take(self, positions: Any) -> "Marks":
        """Return some of them."""
        return Marks(self.offsets[positions], self.times[positions])


NO_MARKS: Final = Marks.numbered(0)


@dataclass(frozen=True, slots=True, eq=False)
class WatchedChange:
    """A change that the watch reports, and how often cells had been taken by then."""

    change: DriftChange
    generation: int


class Links(NamedTuple):
    """Numbers of earlier drift events of the stream that an event belongs to."""

    opened: int | None
    """Of the end of a change: the event that began it."""
    continues: int | None
    """Of a change: the one that it goes on with."""


@dataclass(slots=True)
class _Last:
    """The last drift: its number, when its episode ended (-1 before that), its cells, and what moved."""

    seq: int
    end: int
    generation: int
    moves: list[Move]


class StreamDrift:
    """Watches what a stream's engine has learned; `parameters` are those of `DriftWatch`."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.parameters = dict(parameters)
        self.watch: DriftWatch | None = None
        self._held: list[Marks] = []
        self._generation = 0
        self.open_since: int | None = None
        """Number of the drift event whose episode is open."""
        self._last: _Last | None = None

    @property
    def room(self) -> int:
        """Rows that the engine may learn before the watch looks at its clusters."""
        return STRIDE if self.watch is None else self.watch.room

    def hold(self, marks: Marks) -> None:
        """Keep the marks of rows that a warm-up holds back."""
        self._held.append(marks)

    def release(self, rows: int, end: Marks) -> Marks:
        """Return the marks of the rows that a warm-up has held; `end` is that of its last one, for unknown ones."""
        held, self._held = self._held, []
        unknown = max(rows - sum(len(each.offsets) for each in held), 0)
        parts = [Marks(*(np.repeat(column, unknown) for column in end)), *held]
        return Marks(*(np.concatenate(columns)[-rows:] for columns in zip(*parts, strict=True)))

    def learn(
        self, engine: Engine, X: FloatArray, answers: IntArray, marks: Marks, grain: FloatArray
    ) -> list[tuple[int, WatchedChange]]:
        """Watch prepared rows that an engine has just learned, at most `room`, and return what has changed.

        `grain` is that of their preparation.
        """
        if not len(X) or not DriftWatch.takes(X.shape[1]):
            return []
        if self.watch is None:
            self.watch = DriftWatch(X.shape[1], **self.parameters)
        changes = self.watch.learn(X, answers, *marks, grain)
        found = [(change.index, WatchedChange(change, self._generation)) for change in changes]
        if self.watch.wants_cells(lambda: _first_level(engine)) and self.watch.take_cells(_first_level(engine)):
            self._generation += 1
        return found

    def number(self, watched: WatchedChange, seq: int) -> Links:
        """Give an event its number, and return the earlier ones that it belongs to."""
        change, last = watched.change, self._last
        if change.kind != "drift":
            links = Links(self.open_since, None)
            self.open_since = None
            if last is not None:
                last.end = change.record
            return links
        moves = [
            (unit.unit, each.channel, 1 if each.after > each.before else -1)
            for unit in change.units
            for each in unit.channels
            if each.channel < len(unit.before) and is_moved(each)
        ]
        near = last is not None and last.end >= 0 and change.record - last.end < _LINKED * self.parameters["hold"]
        goes_on = last is not None and last.generation == watched.generation and not {*last.moves}.isdisjoint(moves)
        continues = last.seq if last is not None and near and goes_on else None
        self.open_since = seq
        self._last = _Last(seq, -1, watched.generation, moves[:_MOST_MOVES])
        return Links(None, continues)

    def rescale(self, factor: FloatArray, shift: FloatArray) -> None:
        """Go on with rows in other units."""
        if self.watch is not None:
            self.watch.rescale(factor, shift)

    def state(self) -> bytes:
        """Return everything that the next event depends on, canonical."""
        header = {
            "parameters": self.parameters,
            "generation": self._generation,
            "opened": self.open_since,
            "last": None if self._last is None else [self._last.seq, self._last.end, self._last.generation],
        }
        watch = b"" if self.watch is None else self.watch.state()
        held = [np.stack(each) for each in self._held] or [np.zeros((2, 0), dtype=np.int64)]
        moves = [] if self._last is None else self._last.moves
        arrays: dict[str, NDArray[Any]] = {
            "watch": np.frombuffer(watch, np.uint8),
            "held": np.concatenate(held, axis=1),
            "moves": np.array(moves, dtype=np.int64).reshape(-1, 3),
        }
        return pack(KIND, REVISION, header, arrays)

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state`; `StateError` where it is damaged or from a newer release."""
        header, arrays = unpack(data, KIND, REVISION)
        try:
            drift = cls(header["parameters"])
            held, moves, watch = arrays["held"], arrays["moves"], arrays["watch"].tobytes()
            if held.ndim != 2 or len(held) != 2 or moves.ndim != 2 or moves.shape[1] != 3 or len(moves) > _MOST_MOVES:
                raise ValueError(f"held {held.shape}, moves {moves.shape}")
            if held.dtype != np.int64 or moves.dtype != np.int64:
                raise ValueError(f"held of {held.dtype}, moves of {moves.dtype}")
            drift._held = [Marks(*held)] if held.shape[1] else []
            drift._generation = int(header["generation"])
            drift.open_since = None if header["opened"] is None else int(header["opened"])
            if header["last"] is not None:
                seq, end, generation = map(int, header["last"])
                drift._last = _Last(seq, end, generation, [(a, b, c) for a, b, c in moves.tolist()])
            if watch:
                drift.watch = DriftWatch.from_state(watch)
                if not drift.watch.has(drift.parameters):
                    wanted = DriftWatch(drift.watch.dimension, **drift.parameters)
                    raise ValueError(f"{drift.watch!r} in place of {wanted!r}")
        except (KeyError, TypeError, ValueError, ParameterError) as error:
            raise StateError(f"the state of {KIND} cannot be read: {error!r}") from error
        return drift

    def check(self, dimension: int) -> None:
        """Raise `StateError` where the watch is none of records of `dimension` values."""
        if self.watch is not None and self.watch.dimension != dimension:
            raise StateError(f"a watch of {self.watch.dimension} features behind an engine of dimension {dimension}")


def is_moved(channel: ChangedChannel) -> bool:
    """Whether a feature counts as moved: also one whose greater variation gave the alarm, if it moved by a spread."""
    return channel.change == "moved" or abs(channel.after - channel.before) >= channel.spread


def release(drift: StreamDrift | None, rows: int, marks: Marks, last: int) -> Marks | None:
    """Return the marks of the rows that a warm-up has held, whose last one stands at `last` among `marks`."""
    return None if drift is None else drift.release(rows, marks.take([last]))


def parts_of(drift: StreamDrift | None, rows: int) -> Iterator[slice]:
    """Yield the parts in which an engine learns rows, so that the watch can look at its clusters between them."""
    start = 0
    while start < rows:
        stop = rows if drift is None else min(rows, start + drift.room)
        yield slice(start, stop)
        start = stop


def _first_level(engine: Engine) -> list[Any]:
    return [cluster for cluster in engine.clusters() if not cluster.path]
