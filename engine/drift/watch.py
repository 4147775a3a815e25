"""The watch of a stream as its users see it: records in, changes out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Cluster, FloatArray, IntArray
from resonance.engine.drift import layout, report
from resonance.engine.drift.batch import learn_batch, rows_of
from resonance.engine.drift.layout import channels_of, most_cells, new_state
from resonance.engine.drift.parameters import PARAMETERS, rules_from
from resonance.engine.drift.state import packed, unpacked
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.parameters import Parameter, Parametrised
from resonance.engine.state import pack, unpack

REVISION: Final = 1
"""Raised with every change that alters what a watch reports, or the members of its state."""

KIND: Final = "drift"

ChangeKind = Literal["drift", "settled", "recovered"]
FeatureChange = Literal["moved", "widened", "narrowed"]

_KINDS: Final[tuple[ChangeKind, ...]] = ("drift", "settled", "recovered")
_CHANGES: Final[tuple[FeatureChange, ...]] = ("moved", "widened", "narrowed")
_RECORDS_OF_ROOM: Final = 4
"""Records with a report that a batch has room for before it is interrupted."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A record of the stream: its offset, and its time in milliseconds since 1970."""

    offset: int
    time: int


@dataclass(frozen=True, slots=True)
class ChangedChannel:
    """How a feature, or a signed sum of all features, of a unit changed, in prepared units.

    Attributes
    ----------
    channel : int
        Position of the feature; from the number of features on, a sum: the features vary together otherwise.
    change : {"moved", "widened", "narrowed"}
        Its mean, or how much it varies.
    evidence : float
        1 at the threshold; 0 at the end of an episode.
    before, after : float
        Mean before and since.
    spread : float
        Standard deviation before.
    ratio : float
        How many times as much it varies since.
    """

    channel: int
    change: FeatureChange
    evidence: float
    before: float
    after: float
    spread: float
    ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class ChangedUnit:
    """What changed of a cell, or of the stream as a whole.

    Attributes
    ----------
    unit : int
        0: the stream; from 1 on a cell.
    cluster, was : int
        Id of the cluster that its records are answered with most, now and when the cell was made; -1 for none.
    features, share : bool
        Whether its features changed, and its share of the stream.
    evidence : float
        The strongest; 0 at the end of an episode.
    share_before, share_after : float
        Share of the stream's records.
    settled, share_settled : bool
        At the end of an episode, whether its features have a new baseline, and its share.
    since : Mark or None
        From which record on; None at the end of an episode.
    channels : tuple of ChangedChannel
        At most five, the strongest first.
    before, after, spread : ndarray of shape (d,)
        Means of all features before and since, and spreads before, in prepared units; zeros where there is no baseline.
    """

    unit: int
    cluster: int
    was: int
    features: bool
    share: bool
    evidence: float
    share_before: float
    share_after: float
    settled: bool
    share_settled: bool
    since: Mark | None
    channels: tuple[ChangedChannel, ...]
    before: FloatArray
    after: FloatArray
    spread: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class DriftChange:
    """An event of a watch: an episode begins, or it ends.

    Attributes
    ----------
    index : int
        Record of the batch.
    record : int
        Number of the record among those that were watched.
    kind : {"drift", "settled", "recovered"}
        ``drift``: an episode begins. ``settled``: it ends with other baselines. ``recovered``: with those of before.
    cells : int
        Cells of the watch.
    evidence, threshold : float
        The strongest evidence, and the one from which it is a change.
    units : tuple of ChangedUnit
        The strongest first.
    """

    index: int
    record: int
    kind: ChangeKind
    cells: int
    evidence: float
    threshold: float
    units: tuple[ChangedUnit, ...]


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
        found: list[DriftChange] = []
        for first, rows, vectors in self._learned(batch, *columns):
            found += _changes(rows, vectors, first, self._names, self._rules.threshold)
        return found

    def learned_rows(self, X: ArrayLike, answers: IntArray, offsets: IntArray) -> FloatArray:
        """Watch records and return the rows of `report` instead, for tests of the method."""
        batch = np.require(X, np.float64, ["C"])
        columns = [np.ascontiguousarray(column, dtype=np.int64) for column in (answers, offsets, np.zeros(len(batch)))]
        none = np.zeros((0, report.COLUMNS))
        return np.concatenate([none, *(rows for _, rows, _ in self._learned(batch, *columns))])

    def _learned(self, batch: FloatArray, *columns: IntArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Watch a batch; yield its first record's number, and each part of the report: rows and their vectors."""
        room, first, done = rows_of(self.cells + 1), self.records, 0
        # Made for every batch: a task can have thousands of streams.
        log = np.empty((min(_RECORDS_OF_ROOM, len(batch)) * room, report.COLUMNS))
        vectors = np.empty((len(log), 3, self.dimension))
        while done < len(batch):
            rows = np.zeros(1, dtype=np.int64)
            done = learn_batch(self._state, self._rules, batch, *columns, done, log, rows, vectors, room)
            if rows[0]:
                yield first, log[: rows[0]].copy(), vectors[: rows[0]].copy()

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


def _changes(rows: FloatArray, vectors: FloatArray, first: int, names: IntArray, threshold: float) -> list[DriftChange]:
    """Return the events of a report's rows; units that join an open episode are reported at its end alone.

    `first` is the record of the watch with which the batch began, `names` are the cells' first ones.
    """
    events: list[tuple[NDArray[Any], list[tuple[int, list[NDArray[Any]]]]]] = []
    joined = False
    for place, row in enumerate(rows):
        kind = int(row[0])
        if kind == report.EVENT:
            events.append((row.copy(), []))
        elif kind in (report.UNIT, report.ENDED):
            joined = kind == report.UNIT and row[9] == 1.0
            if not joined:
                events[-1][1].append((place, []))
        elif not joined:
            events[-1][1][-1][1].append(row)
    changes = []
    for row, units in events:
        reported = [
            _unit(rows[place], vectors[place].copy(), channels, int(names[int(rows[place][2])]))
            for place, channels in units
        ]
        # Sorting is stable: of equally strong ones the first unit comes first.
        reported.sort(key=lambda unit: -(unit.evidence or _largest(unit)))
        strongest = max((unit.evidence for unit in reported), default=0.0) * threshold
        changes.append(
            DriftChange(
                int(row[1]) - first,
                int(row[1]),
                _KINDS[int(row[2])],
                int(row[6]),
                strongest,
                threshold,
                tuple(reported),
            )
        )
    return changes


def _largest(unit: ChangedUnit) -> float:
    """Return by how many spreads a unit moved at most."""
    shifts = [abs(each.after - each.before) / each.spread for each in unit.channels if each.spread > 0.0]
    return max(shifts, default=0.0)


def _unit(row: NDArray[Any], vectors: FloatArray, channels: Sequence[NDArray[Any]], was: int) -> ChangedUnit:
    ended = int(row[0]) == report.ENDED
    what = int(row[3])
    features, share = bool(what & report.FEATURES), bool(what & (report.MORE | report.FEWER))
    unit, name = int(row[2]), int(row[7] if ended else row[8])
    before, after, spread = vectors
    found = tuple(
        ChangedChannel(
            int(c[2]),
            _CHANGES[int(c[3])],
            float(c[4]),
            float(c[5]),
            # Sums of all features have no vectors.
            float(after[int(c[2])] if c[2] < len(after) else c[6]),
            float(c[7]),
            float(c[8]),
        )
        for c in channels
    )
    return ChangedUnit(
        unit=unit,
        cluster=name if unit else -1,
        was=was if unit else -1,
        features=features,
        share=share,
        evidence=0.0 if ended else float(max(row[4], row[5])),
        share_before=float(row[5] if ended else row[6]),
        share_after=float(row[8] if ended else row[10]),
        settled=ended and row[4] == 1.0,
        share_settled=ended and row[6] == 1.0,
        since=None if ended else Mark(int(row[7]), int(row[11])),
        channels=found,
        before=before,
        after=after,
        spread=spread,
    )
