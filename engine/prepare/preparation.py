"""The preparation of a stream's records: learned from its warm-up, frozen, and undone in what is described."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from resonance.engine.base import Cluster, Engine, FloatArray, IntArray
from resonance.engine.errors import ParameterError, RecordError, StateError
from resonance.engine.prepare.dense_scale import DenseScale
from resonance.engine.prepare.parameters import PreparationParameters
from resonance.engine.prepare.rescaling import LOOK, RangeWatch, Rescaling, Settling, rescale
from resonance.engine.prepare.scaling import Described, bent_grain, sinh_and_slope, spread_steps
from resonance.engine.state import pack, unpack
from resonance.kernels.table import MAX_RECORDS, require

REVISION: Final = 8
"""Raised with every change that alters prepared bits, or the members of a state."""

FIRST_RECORDS: Final = 16
"""Records that a first scale is taken from, where the engine can go on with another one: it answers from then on."""

_KIND = "prepare"
_NAMES = tuple(each.name for each in fields(PreparationParameters))
_COUNTED = ("ready", "outside", "compared")
_ADDED = ("robust", "rescale")
"""Parameters that a state leaves out where they are false: it is that of releases that did not have them."""


class Preparation:
    """Scale, fill in, take logarithms, encode categories and project; what is learned for it once is then frozen.

    A raw record has one number for each feature: NaN where the feature is missing, and for a category the position of
    its value in the list, or -1 for a value that the list does not have. In this order: a missing feature is filled
    in, ``log1p`` is taken, the range is mapped to [0, 1]; a category becomes one column of 0 or 1 for each value. Many
    columns are then replaced by what the record has along a few principal axes of the warm-up.

    Until `ready` the first records are only held (`hold`); `freeze` learns from them and returns them prepared. From
    then on `apply` prepares batches. A record that cannot be prepared raises `RecordError`, which leaves everything
    as it was; `check` names all of a batch's records at fault, so that the others can go on.

    The same records give the same bits on every CPU and in every division into batches.

    Parameters
    ----------
    features : sequence of str
        Names of the features, in the order of the columns of a raw record.
    scale : {"warmup", "none", "given"}
        ``warmup``: the 1st to the 99th percentile of the feature in the held records becomes [0, 1], values outside
        go on outside; a feature with no width there keeps its unit and begins at 0. ``given``: `ranges` does it.
    warmup_records : int, optional
        Records that `freeze` wants (1 to 1,000,000); without it 200, or 500 where records are projected.
    missing : {"reject", "mean"} or float
        A missing feature: the record is at fault; the mean of the held records that have it (0 if none has); this
        number, in the input's units. A missing category is at fault, or like an unknown value in the other two.
    log1p : sequence of str
        Features of which log(1 + x) is taken.
    categories : mapping of str to sequence of str
        Features that are categories, with their values.
    ranges : mapping of str to (float, float)
        For ``given``: what becomes 0 and 1 of each feature that is no category, in the input's units.
    clip : bool
        Values outside [0, 1] become 0 or 1: for engines defined there only. Excludes a projection.
    project : {"auto"} or int
        Principal axes of the held records that take the place of the columns (1 to 64, at most the columns; fewer
        where the held records vary along fewer); 0 for none. ``auto``: 16 from 33 columns on, where `scale` is
        ``warmup`` and `clip` is not set. With ``warmup``, where the held records have one Euclidean length, as
        embeddings do, their features are not scaled: each record is divided by its length.
    robust : bool
        With ``warmup``, not with `clip`. A feature that has at most two values in the held records, or one in nine
        tenths of them where records are not projected, and a category count a fiftieth of the others, where there are
        others; but fully where it goes together with another feature, by a correlation of 1/2, and none of its values
        has nine tenths: then it separates groups. A feature whose 99th percentile is more than 2.5 times as far from
        the median as the 1st, or the other way round, is bent before it is scaled: by the inverse hyperbolic sine, in
        units of the shorter way. A feature whose values stand on an even grid is rounded or counts, where half of the
        records share their value, and more than half have values in runs of five or more whose neighbours are at most
        three steps apart: each value is moved by up to half a step, by a number that follows from the record's number
        alone. Not where one value, twice as frequent as those beside it, has more than half of the records; nor where
        a logarithm is taken; and a value that was filled in stays. Values without a grid of which one has a tenth of
        the records, and of their later half, but not nine, are moved by up to half of 1/10,000 of their least gap: then
        equal records are a small cloud, with a density.
    rescale : bool
        With ``warmup``, not with `clip`; without effect where records are projected. Where more than half of 500
        records lie outside [0, 1] by more than its width, a feature's range is frozen anew from the last 200 of them;
        when they are back near the range of the warm-up that is taken again. The next change within 100,000 records of
        a turn covers both places, if that is at most 50 times as wide as either. Not of categories, of features that
        are bent, or that have two values at most or one in nine tenths of those 200. See `rescale`. A warm-up of more
        than 16 records has a first scale by then, where more than half of them differ: `freeze` learns it from 16, and
        `rescale` the scale that stays from all.

    Raises
    ------
    ParameterError
        A parameter outside its range, or a name that is no feature.
    """

    def __init__(self, features: Sequence[str], **given: Any) -> None:
        self._parameters = parameters = PreparationParameters(features, **given)
        self.features = tuple(parameters.features)
        """Names of the features of a raw record."""
        self.columns = parameters.columns
        """Names of the columns that centres and spreads are described in: a feature's own, or ``feature=value``.

        Without a projection they are also those of a prepared record.
        """
        self.clip = parameters.clip
        """Prepared values lie in [0, 1]."""
        self.warmup_records = parameters.held
        """Records that a warm-up has."""
        self.ready = not parameters.needs_warmup
        """Nothing more has to be held: `apply` can be used."""
        self.compared = self.outside = 0
        """Values that were compared with their frozen range so far, and how many of them were outside."""
        self._scale = DenseScale(parameters)
        self._held: list[FloatArray] = []
        self._number = 0
        self._watch: RangeWatch | None = None

    @property
    def dimension(self) -> int:
        """Values of a prepared record: its columns, or its principal axes. Final once `ready`."""
        return self._scale.dimension

    @property
    def projects(self) -> bool:
        """Principal axes take the place of the columns."""
        return self._scale.axes is not None

    @property
    def wanted(self) -> int:
        """Records that `hold` still takes before it is time to `freeze`."""
        if self.ready:
            return 0
        held = self.held
        is_first = self._rescales and (held < FIRST_RECORDS or (held == FIRST_RECORDS and self._differ()))
        return min(FIRST_RECORDS if is_first else self.warmup_records, self.warmup_records) - held

    def _differ(self) -> bool:
        """Whether more than half of the held records differ: the others say nothing of a scale."""
        return 2 * len(np.unique(np.concatenate(self._held), axis=0)) > self.held

    @property
    def settling(self) -> bool:
        """The scale is a first one, and the records of the warm-up are still held."""
        return self.ready and bool(self._held)

    @property
    def held(self) -> int:
        """Records of the warm-up that are held now."""
        return sum(map(len, self._held))

    @property
    def known_features(self) -> list[str]:
        """Names of the features, as a list."""
        return list(self.features)

    def hold(self, X: ArrayLike) -> None:
        """Keep raw records of the warm-up.

        Parameters
        ----------
        X : array_like of shape (n, features), n <= `wanted`
            Raw records, in order.

        Raises
        ------
        RecordError
            Naming the first record that cannot be prepared; none was kept.
        """
        rows = self._rows(X)
        if len(rows) > self.wanted:
            raise ValueError(f"{len(rows)} records to hold, {self.wanted} are wanted")
        self._scale.prepared(rows)
        self._held.append(rows.copy())

    def held_rows(self) -> FloatArray:
        """Return the raw records of the warm-up that are held now."""
        return np.concatenate([np.empty((0, len(self.features))), *self._held])

    def freeze(self) -> FloatArray:
        """Learn everything from the held records and return these, prepared, in order; shape (held, dimension)."""
        if self.ready:
            raise RuntimeError("the scale is frozen already")
        raw = self.held_rows()
        is_first = self._rescales and len(raw) < self.warmup_records
        self._scale = scale = DenseScale.learned(self._parameters, raw, is_first=is_first)
        self.ready = True
        prepared, _ = scale.prepared(scale.columns.spread(raw, 0))
        self._number = len(raw)
        if not is_first:
            self._settle()
        return prepared

    def _settle(self) -> None:
        """End the warm-up: the scale stays, but for features that leave their ranges."""
        if self._rescales:
            features, table = self._scale.columns.rescalable, self._scale.columns.table
            self._watch = RangeWatch(features, table.first[features], table.low[features], table.width[features])
        self._held = []

    def apply(self, X: ArrayLike) -> FloatArray:
        """Prepare a batch.

        Parameters
        ----------
        X : array_like of shape (n, features)
            Raw records.

        Returns
        -------
        ndarray of shape (n, dimension)
            Finite, at most `MAGNITUDE` in absolute value.

        Raises
        ------
        RecordError
            Naming the first record that cannot be prepared; `check` names them all.
        """
        rows = self._scalable(X)
        if self.room is not None and len(rows) > self.room:
            raise ValueError(f"{len(rows)} records to prepare, {self.room} until the scale is looked at")
        table = self._scale.columns.table
        prepared, outside = self._scale.prepared(self._scale.columns.spread(rows, self._number))
        if self.settling:
            self._held.append(rows.copy())
        self._number += len(rows)
        if self._watch is not None:
            self._watch.see(prepared, table.low, table.width)
        self.outside += outside
        self.compared += len(rows) * int(np.count_nonzero(table.ranged))
        return prepared

    def transform(self, X: ArrayLike) -> FloatArray:
        """Prepare records that are not learned: as `apply` does, but they count nowhere and none is moved in its step.

        Nothing changes, and there may be any number of them.
        """
        return self._scale.prepared(self._scalable(X))[0]

    def grain(self, prepared: FloatArray) -> FloatArray:
        """Return how far apart values may be that were one before they were spread over a step, 0 where none are.

        A row for all these prepared records, or, where a feature is bent, one for each.
        """
        return self._scale.grain(prepared)

    def without_means(self, prepared: FloatArray, raw: ArrayLike) -> FloatArray:
        """Return prepared records with NaN in each column where the mean, which says nothing new, stands for a value.

        `raw` are the records that they were. Principal axes hold all features, so that they stay as they are.
        """
        return self._scale.without_means(prepared, np.asarray(raw))

    def transform_next(self, X: ArrayLike) -> FloatArray:
        """Prepare records that are not learned, each as `apply` would the next one; nothing changes."""
        return self._scale.prepared(self._scale.columns.spread(self._rows(X), self._number, 0))[0]

    @property
    def _rescales(self) -> bool:
        return self._parameters.rescale and not self.projects

    @property
    def room(self) -> int | None:
        """Records that can be prepared before it is time to `rescale`; None where that never is."""
        if not self._rescales:
            return None
        if self._watch is not None:
            return LOOK - self._watch.seen
        left = self.warmup_records - self.held - self.wanted
        return left if left or self.settling else LOOK

    def rescale(self) -> Rescaling | Settling | None:
        """Learn the scale that stays, or freeze the ranges anew of features that have left theirs.

        It is time for it where `room` is 0. It returns None where nothing changes, or it is not time.
        """
        if self.room != 0:
            return None
        if self._watch is not None:
            return rescale(self._scale.columns, self._watch, self.columns)
        raw, first = np.concatenate(self._held), self._scale
        before, _ = first.prepared(first.columns.spread(raw, 0))
        self._scale = scale = DenseScale.learned(self._parameters, raw, is_first=False)
        after, faults, *_ = scale.run(scale.columns.spread(raw, 0))
        self._settle()
        # What is too far away for its new scale stays where it was.
        return Settling(before, np.where(faults[:, 1:] > 0, before, after), raw)

    def check(self, X: ArrayLike) -> dict[int, str]:
        """Return what is wrong with which record: empty when `apply`, or `hold`, takes them all.

        Parameters
        ----------
        X : array_like of shape (n, features)
            Raw records.

        Returns
        -------
        dict of int to str
            Position in `X` and reason, in order.
        """
        return self._scale.problems(self._rows(X))

    def to_input_units(self, centre: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map a prepared centre and the spread around it back to the units of the input.

        Where a logarithm was taken the spread is its first-order image: multiplied with the slope at the centre. Where
        records are projected it has also what the features of the warm-up vary beside the principal axes. Of a feature
        in steps it is that of the rounded values: what moving them within a step adds is taken off.

        Parameters
        ----------
        centre, spread : ndarray of shape (dimension,)
            As in `Cluster`.

        Returns
        -------
        centre, spread : ndarray of shape (columns,)
            New arrays, finite.
        """
        return self._scale.to_input_units(centre, spread)

    def describe(self, cluster: Cluster) -> Described:
        """Return the centre and the spread of a cluster in the units of the input."""
        return Described(self.columns, *self.to_input_units(cluster.centre, cluster.spread))

    def names_of(self, features: IntArray) -> list[str]:
        """Return the names of columns."""
        return [self.columns[feature] for feature in features.tolist()]

    def check_engine(self, engine: Engine) -> None:
        """Raise `StateError` for an engine that has not learned what this prepares."""
        if engine.dimension not in (0, self.dimension):
            columns = self.dimension
            raise StateError(f"an engine of dimension {engine.dimension} behind a preparation of {columns} columns")

    def state(self) -> bytes:
        """Everything the next record depends on: versioned, checksummed, canonical (equal states, equal bytes)."""
        header = {
            **{name: value for name in _NAMES if (value := getattr(self._parameters, name)) or name not in _ADDED},
            "warmup_records": self.warmup_records,
            **{name: getattr(self, name) for name in _COUNTED},
        }
        held = self.held_rows()
        arrays = {**self._scale.arrays(), "held": held}
        if self._parameters.robust:
            header["number"] = self._number
        if self._watch is not None:
            members, watched = self._watch.state()
            header, arrays = {**header, **members}, {**arrays, **watched}
        return pack(_KIND, REVISION, header, arrays)

    def frozen_state(self) -> bytes:
        """Return `state` without what was counted: a function of the settings and the warm-up alone."""
        copy = Preparation.from_state(self.state())
        copy.outside = copy.compared = copy._number = 0
        return copy.state()

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state`; the next records give the same bits.

        Raises
        ------
        StateError
            Damaged, of another kind, or written by a newer program.
        """
        header, arrays = unpack(data, _KIND, REVISION)
        try:
            ready, outside, compared = (header.pop(name) for name in _COUNTED)
            seen, number = header.pop("seen", None), header.pop("number", 0)
            preparation = cls(**header)
            preparation._scale.read(arrays, is_learned=bool(ready))
            require(type(number) is int and 0 <= number <= MAX_RECORDS, f"{number!r} records prepared")
            preparation._number = number
            preparation._held = [arrays["held"].reshape(-1, len(preparation.features))] if len(arrays["held"]) else []
            preparation.ready, preparation.outside, preparation.compared = bool(ready), int(outside), int(compared)
            most = preparation.warmup_records if preparation._rescales or not ready else 0
            enough = preparation.held >= FIRST_RECORDS or not preparation.settling
            require(preparation.held <= most and enough, f"{len(arrays['held'])} records held")
            if preparation._rescales and ready and not preparation._held:
                columns = preparation._scale.columns
                features = columns.rescalable
                at = columns.table.first[features]
                preparation._watch = RangeWatch.from_state(seen, arrays, features, at)
        except (KeyError, TypeError, ValueError, ParameterError) as error:
            raise StateError(f"the state of {_KIND} cannot be read: {error!r}") from error
        return preparation

    @classmethod
    def compile(cls, project: bool = True) -> None:
        """Compile the kernels, so that the first record does not wait for it; `project`: those of projections, too."""
        preparation = cls(["x"], scale="none", log1p=["x"])
        preparation.apply(np.zeros((1, 1)))
        preparation.to_input_units(np.ones(1), np.ones(1))
        sinh_and_slope(0.5)
        bent_grain(np.zeros((2, 2))[:, 0], 0.0, 1.0, 1.0, np.zeros((2, 2))[:, 1])
        spread_steps(np.zeros((1, 1)), np.ones(1), 0, 1)
        watching = cls(["x"], warmup_records=2, rescale=True)
        watching.hold(np.eye(2)[:, :1])
        watching.freeze()
        watching.apply(np.zeros((1, 1)))
        for records in (2, 3) if project else ():
            projecting = cls(["x", "y", "z"], warmup_records=records, project=1)
            projecting.hold(np.eye(3)[:records])
            dimension = projecting.freeze().shape[1]
            projecting.to_input_units(np.ones(dimension), np.ones(dimension))

    def _rows(self, X: ArrayLike) -> FloatArray:
        # Writable, because a kernel is compiled once more for arrays that are not.
        rows = X if _is_plain(X) else np.require(X, np.float64, ["C", "W"])
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise RecordError(0, f"raw records have shape (n, {len(self.features)}), these {rows.shape}")
        return rows

    def _scalable(self, X: ArrayLike) -> FloatArray:
        if not self.ready:
            raise RuntimeError(f"{self.wanted} more records are wanted before the scale is frozen")
        return self._rows(X)


def _is_plain(X: ArrayLike) -> TypeGuard[FloatArray]:
    """Whether the kernel takes an array as it is."""
    return isinstance(X, np.ndarray) and X.dtype == np.float64 and X.flags.c_contiguous and X.flags.writeable
