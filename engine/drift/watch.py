"""The watch of a stream as its users see it: records in, changes out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike
from resonance.engine.base import Cluster, FloatArray, IntArray
from resonance.engine.drift import layout
from resonance.engine.drift.changes import ChangedUnit, ChangeKind, DriftChange, change_of
from resonance.engine.drift.episode import end_episode, is_over, raise_alarm
from resonance.engine.drift.layout import PARAMETERS, channels_of, most_cells, new_state, packed, rules_from, unpacked
from resonance.engine.drift.learn import learn_batch
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.parameters import Parameter, Parametrised
from resonance.engine.state import pack, unpack

REVISION: Final = 1
"""Raised with every change that alters what a watch reports, or the members of its state."""

KIND: Final = "drift"


_Happened = tuple[int, ChangeKind | None, list[ChangedUnit]]
"""Record of the batch with which an episode begins, ends or, as None, is joined by units; and these."""


class DriftWatch(Parametrised):
    """Sees changes of a stream's features and of its clusters' shares, a few hundred records after they began.

    The stream is divided once into cells, by the centres of its engine's clusters. Each cell, and the stream as a
    whole, keeps a baseline of every feature, and cumulative sums of what exceeds it; thresholds grow with the
    dependence that is measured. See docs/drift.md.

    Parameters
    ----------
    dimension : int
        Features of a prepared record.
    **given : object
        By the names in `DriftWatch.parameters`.

    Raises
    ------
    ParameterError
        A parameter outside its range, or more features than can be watched.

    References
    ----------
    E. S. Page, "Continuous Inspection Schemes", Biometrika 41(1-2), 1954.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, dimension: int, **given: Any) -> None:
        super().__init__(**given)
        if not self.takes(dimension):
            raise ParameterError("dimension", dimension, f"from 1 to {layout.MOST_CHANNELS - 2:,} features")
        self.dimension = dimension
        self._most = most_cells(dimension, self._given["cells"])
        self._rules = rules_from(self._given, dimension)
        self._state = new_state(dimension, 0)
        # The first name of each unit.
        self._names = np.zeros(1, dtype=np.int64)

    @staticmethod
    def takes(dimension: int) -> bool:
        """Return whether records of so many features can be watched."""
        return 1 <= channels_of(dimension) <= layout.MOST_CHANNELS

    @property
    def records(self) -> int:
        """Records so far."""
        return int(self._state.head[layout.RECORDS])

    @property
    def room(self) -> int:
        """Records that the next batch may have: none goes beyond a multiple of 512."""
        return layout.STRIDE - self.records % layout.STRIDE

    @property
    def cells(self) -> int:
        """Cells that are watched apart; one alone is not."""
        return int(self._state.head[layout.CELLS])

    @property
    def is_open(self) -> bool:
        """Whether an episode is open."""
        return bool(self._state.head[layout.OPEN])

    def learn(self, X: ArrayLike, answers: IntArray, offsets: IntArray, times: IntArray) -> list[DriftChange]:
        """Watch records that the engine has learned.

        Parameters
        ----------
        X : array_like of shape (n, dimension), n <= `room`
            Prepared records.
        answers : ndarray of int64, shape (n,)
            Cluster of each on the first level; -1 for none.
        offsets, times : ndarray of int64, shape (n,)
            Offset and time of each record, in milliseconds since 1970.

        Returns
        -------
        list of DriftChange
            In the order in which they happened.
        """
        batch = np.require(X, np.float64, ["C"])
        if batch.ndim != 2 or batch.shape[1] != self.dimension or len(batch) > self.room:
            raise ValueError(f"at most {self.room} records of {self.dimension} features, not {batch.shape}")
        columns = [np.ascontiguousarray(column, dtype=np.int64) for column in (answers, offsets, times)]
        if any(column.shape != (len(batch),) for column in columns):
            raise ValueError(f"{len(batch)} records, but {[len(column) for column in columns]} answers, offsets, times")
        found, first = [], self.records
        for index, kind, units in self._learned(batch, *columns):
            if kind is not None:
                found.append(change_of(kind, index, first + index, self.cells, self._rules.threshold, units))
        return found

    def _learned(self, batch: FloatArray, *columns: IntArray) -> Iterator[_Happened]:
        """Watch a batch; yield what happens to episodes."""
        names, done = self._names if self.cells > 1 else self._names[:1], 0
        while done < len(batch):
            done, alarm = learn_batch(self._state, self._rules, batch, *columns, done)
            if alarm:
                opens, units = raise_alarm(self._state, self._rules, names)
                yield done - 1, "drift" if opens else None, units
            if is_over(self._state, self._rules, len(names)):
                yield done - 1, *end_episode(self._state, self._rules, names)

    def wants_cells(self, clusters: Callable[[], int]) -> bool:
        """Return whether `take_cells` is due, after a batch that ended at a multiple of 512 records.

        Parameters
        ----------
        clusters : callable
            Returns the number of confirmed clusters of the engine's first level; called where it matters.
        """
        head, records = self._state.head, self.records
        if records == 0 or records % layout.STRIDE or head[layout.OPEN]:
            return False
        young = head[layout.NEXT_LOOK] <= layout.YOUNG and records >= head[layout.NEXT_LOOK]
        while young and head[layout.NEXT_LOOK] <= records:
            head[layout.NEXT_LOOK] *= 2
        if head[layout.REBUILD]:
            return True
        if not young:
            return False
        count, cells = min(clusters(), self._most), self.cells
        return count != cells if records <= layout.EARLY else 2 * count >= 3 * cells and count > cells

    def take_cells(self, clusters: Sequence[Cluster]) -> bool:
        """Divide the stream anew by the largest of some clusters; return whether there was any."""
        state = self._state
        state.head[layout.REBUILD] = 0
        chosen = sorted(clusters, key=lambda cluster: (-cluster.size, cluster.id))[: self._most]
        if not chosen:
            return False
        taken = new_state(self.dimension, len(chosen))
        taken.head[...] = state.head
        taken.head[layout.CELLS] = len(chosen)
        for part, own in ((taken.channel, state.channel), (taken.number, state.number), (taken.mark, state.mark)):
            part[0] = own[0]
        self._state, self._names = taken, np.array([0, *(cluster.id for cluster in chosen)], dtype=np.int64)
        taken.number[1:, layout.NAME] = self._names[1:]
        for place, cluster in enumerate(chosen):
            taken.centre[place] = cluster.centre
        return True

    def rescale(self, factor: FloatArray, shift: FloatArray) -> None:
        """Go on with records in other units: what was x of a feature is ``factor * x + shift``; factors above 0."""
        state, d = self._state, self.dimension
        state.centre[: self.cells] = state.centre[: self.cells] * factor + shift
        for unit in range(self.cells + 1):
            channel = state.channel[unit, :, :d]
            measured = state.number[unit, layout.SEEN] >= layout.RANGE
            if state.number[unit, layout.SEEN] > 0:
                channel[layout.C] = channel[layout.C] * factor + shift
                channel[layout.G] = channel[layout.G] / factor if measured else channel[layout.G] * factor * factor
            for place, spread in (
                (layout.OLD, layout.OLD_SPREAD),
                (layout.PREVIOUS, layout.PREVIOUS_SPREAD),
            ):
                known = channel[spread] > 0.0
                channel[place] = np.where(known, channel[place] * factor + shift, channel[place])
                channel[spread] *= factor
            if state.number[unit, layout.BASES] > 0:
                for bound in (layout.LOWEST, layout.HIGHEST):
                    channel[bound] = channel[bound] * factor + shift

    def state(self) -> bytes:
        """Everything that the next record's report depends on: versioned, checksummed, canonical."""
        header = {"dimension": self.dimension, "parameters": dict(self._given)}
        return pack(KIND, REVISION, header, packed(self._state, self._names))

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state`; the next records give the same bits.

        Raises
        ------
        StateError
            Damaged, of another kind, or written by a newer program.
        """
        header, arrays = unpack(data, KIND, REVISION)
        try:
            dimension, given = header["dimension"], header["parameters"]
            if type(dimension) is not int or not isinstance(given, Mapping):
                raise ValueError(f"dimension {dimension!r}")
            watch = cls(dimension, **given)
            cells = int(arrays["head"][layout.CELLS])
            if not 0 <= cells <= watch._most:
                raise ValueError(f"{cells} cells")
            watch._state, watch._names = new_state(dimension, cells), np.zeros(cells + 1, dtype=np.int64)
            unpacked(watch._state, watch._names, arrays)
        except (KeyError, TypeError, ValueError, IndexError, ParameterError) as error:
            raise StateError(f"the state of {KIND} cannot be read: {error!r}") from error
        return watch

    @classmethod
    def compile(cls) -> None:
        """Compile the kernels, so that the first record does not wait for it."""
        none = np.zeros(1, dtype=np.int64)
        cls(1).learn(np.zeros((1, 1)), none, none, none)
