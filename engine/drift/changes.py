"""The changes that a watch reports, and how they are read from the rows of `report`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.drift import report

ChangeKind = Literal["drift", "settled", "recovered"]
FeatureChange = Literal["moved", "widened", "narrowed"]

_KINDS: Final[tuple[ChangeKind, ...]] = ("drift", "settled", "recovered")
_CHANGES: Final[tuple[FeatureChange, ...]] = ("moved", "widened", "narrowed")


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


def changes_of(
    rows: FloatArray, vectors: FloatArray, first: int, names: IntArray, threshold: float
) -> list[DriftChange]:
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
