"""The watch of a stream as its users see it: records in, changes out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike
from resonance.engine.base import Cluster, FloatArray, IntArray
from resonance.engine.drift import layout
from resonance.engine.drift.apart import look_at_relations
from resonance.engine.drift.changes import ChangedUnit, ChangeKind, DriftChange, change_of
from resonance.engine.drift.episode import end_episode, is_over, is_settling, raise_alarm
from resonance.engine.drift.excursions import come_back, is_any_back
from resonance.engine.drift.layout import (
    PARAMETERS,
    channels_of,
    most_cells,
    new_state,
    packed_state,
    put_state,
    related_of,
    rules_from,
)
from resonance.engine.drift.learn import is_quiet, learn_batch
from resonance.engine.drift.ranges import begin_sums
from resonance.engine.drift.relations import inverse, relation_unit, rescale_relations
from resonance.engine.drift.steps import HELD_NOISY, is_any_stuck
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.parameters import Parameter, Parametrised
from resonance.engine.state import pack, unpack
from resonance.kernels.table import require, stored_fields

REVISION: Final = 10
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
        self._state = new_state(dimension, 0, related_of(self._given, dimension))

    @staticmethod
    def takes(dimension: int) -> bool:
        """Return whether records of so many features can be watched."""
        return 1 <= channels_of(dimension) <= layout.MOST_CHANNELS

    @property
    def records(self) -> int:
        """Records so far."""
        return self._state.records

    @property
    def room(self) -> int:
        """Records that the next batch may have: none goes beyond a multiple of 512."""
        return layout.STRIDE - self.records % layout.STRIDE

    @property
    def cells(self) -> int:
        """Cells that are watched apart; one alone is not."""
        return self._state.cells

    @property
    def is_open(self) -> bool:
        """Whether an episode is open."""
        return self._state.open == 1

    def learn(
        self, X: ArrayLike, answers: IntArray, offsets: IntArray, times: IntArray, grain: FloatArray | None = None
    ) -> list[DriftChange]:
        """Watch records that the engine has learned.

        Parameters
        ----------
        X : array_like of shape (n, dimension), n <= `room`
            Prepared records; NaN where one lacks a feature, whatever stands for it elsewhere.
        answers : ndarray of int64, shape (n,)
            Cluster of each on the first level; -1 for none.
        offsets, times : ndarray of int64, shape (n,)
            Offset and time of each record, in milliseconds since 1970.
        grain : ndarray of shape (n, dimension) or (1, dimension), optional
            How far apart values of a feature may be that were one before they were spread over their rounding.

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
        grain = np.zeros((1, self.dimension)) if grain is None else grain
        for index, kind, units in self._learned(batch, *columns, grain):
            if kind is not None:
                found.append(change_of(kind, index, first + index, self.cells, self._rules.threshold, units))
        return found

    def _learned(self, batch: FloatArray, *columns: IntArray | FloatArray) -> Iterator[_Happened]:
        """Watch a batch; yield what happens to episodes."""
        done, state = 0, self._state
        while done < len(batch):
            done, alarm, is_apart = learn_batch(state, self._rules, batch, *columns, done)
            if alarm and is_any_back(state):
                if come_back(state, self._rules):
                    yield done - 1, *end_episode(state, self._rules)
            elif alarm:
                # What follows on steps alone, which have no new baseline, is another change.
                if state.open and not is_settling(state, self._rules):
                    yield done - 1, *end_episode(state, self._rules)
                opens, changed = raise_alarm(state, self._rules)
                yield done - 1, "drift" if opens else None, changed
            if is_apart:
                opens, unit = look_at_relations(state, self._rules)
                if unit is not None:
                    yield done - 1, "drift" if opens else None, [unit]
            if is_over(state, self._rules):
                yield done - 1, *end_episode(state, self._rules)

    def wants_cells(self, clusters: Callable[[], Sequence[Cluster]]) -> bool:
        """Return whether `take_cells` is due, after a batch that ended at a multiple of 512 records.

        Parameters
        ----------
        clusters : callable
            Returns the confirmed clusters of the engine's first level; called where it matters.
        """
        state, records = self._state, self.records
        if records == 0 or records % layout.STRIDE or is_settling(state, self._rules):
            return False
        # Clusters of records with a feature that is stuck are gone when it is no longer.
        if is_any_stuck(state):
            return False
        young = state.next_look <= layout.YOUNG and records >= state.next_look
        while young and state.next_look <= records:
            state.next_look *= 2
        if state.rebuild:
            return True
        if not young:
            return False
        sizes, cells = sorted((cluster.size for cluster in clusters()), reverse=True)[: self._most], self.cells
        # Few records elsewhere, such as those of an outage, are no reason to begin with all cells anew.
        large = sum(layout.SMALL * size * len(sizes) >= sum(sizes) or self._rules.leaps == 0 for size in sizes)
        if records <= layout.EARLY:
            return len(sizes) < cells or large > cells
        return 2 * large >= 3 * cells and large > cells

    def take_cells(self, clusters: Sequence[Cluster]) -> bool:
        """Divide the stream anew by the largest of some clusters; return whether there was any."""
        state = self._state
        state.rebuild = 0
        chosen = sorted(clusters, key=lambda cluster: (-cluster.size, cluster.id))[: self._most]
        if not chosen:
            return False
        taken = new_state(self.dimension, len(chosen), len(state.level))
        # Shares are those of other cells from now on; the stream stays as it is, with what is left of its features.
        rows = [0, -1] if len(state.level) else [0]
        for name in ("head", "channel", "plain", "number", "return", "home", "mark", "mark_time"):
            for field, each in stored_fields(layout.WatchState)[name]:
                if each.axes:
                    getattr(taken, field)[rows] = getattr(state, field)[rows]
                else:
                    setattr(taken, field, getattr(state, field))
        for field, _ in chain.from_iterable(stored_fields(layout.WatchState)[name] for name in layout.OF_STREAM):
            getattr(taken, field)[:] = getattr(state, field)
        taken.cells = len(chosen)
        self._state = taken
        own = slice(1, len(chosen) + 1)
        taken.names[own] = taken.name[own] = [cluster.id for cluster in chosen]
        for place, cluster in enumerate(chosen):
            taken.centre[place] = cluster.centre
        return True

    def rescale(self, factor: FloatArray, shift: FloatArray) -> None:
        """Go on with records in other units: what was x of a feature is ``factor * x + shift``; factors above 0."""
        state, d = self._state, self.dimension
        state.centre[: self.cells] = state.centre[: self.cells] * factor + shift
        for place in (state.last, state.bottom, state.top):
            place[:] = place * factor + shift
        for steps in (state.steps, state.rough, state.least, state.most):
            steps[:] = steps * factor
        state.smooth[:] = np.where(state.held == HELD_NOISY, state.smooth * factor, state.smooth)
        relations = relation_unit(state)
        for k in range(len(state.seen)):
            # What is left of a feature has no place of its own.
            way = np.zeros(d) if k == relations else shift
            if state.seen[k] > 0:
                measured = state.seen[k] >= layout.RANGE
                state.middle[k, :d] = state.middle[k, :d] * factor + way
                gain = state.gain[k, :d]
                gain[:] = gain / factor if measured else gain * factor * factor
            for place, spread in ((state.old, state.old_spread), (state.previous, state.previous_spread)):
                known = spread[k, :d] > 0.0
                place[k, :d] = np.where(known, place[k, :d] * factor + way, place[k, :d])
                spread[k, :d] *= factor
            home = dict(zip((*layout.HOME, *layout.HOME_STEPS), state.home[k, :, :d], strict=True))
            for name, row in home.items():
                if name in {"middle", "usual", "bottom", "top"}:
                    row[:] = row * factor + way
                elif name in {"gain", "least", "most"}:
                    row[:] = row / factor if name == "gain" else row * factor
            for place in (state.usual, state.old_usual):
                place[k, :d] = place[k, :d] * factor + way
            if state.bases[k] > 0:
                for bound in (state.lowest, state.highest):
                    bound[k, :d] = bound[k, :d] * factor + way
        if relations >= 0:
            rescale_relations(state, factor, shift)

    def state(self) -> bytes:
        """Everything that the next record's report depends on: versioned, checksummed, canonical."""
        header = {"dimension": self.dimension, "parameters": dict(self._given)}
        return pack(KIND, REVISION, header, packed_state(self._state))

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
            require(type(dimension) is int and isinstance(given, Mapping), f"dimension {dimension!r}")
            watch = cls(dimension, **given)
            cells = len(arrays["centre"])
            require(0 <= cells <= watch._most, f"{cells} cells")
            if "leaps" not in given:  # What is usual, and steps, were not kept then.
                arrays |= {"last_mark": np.zeros(1, np.int64), "head": np.append(arrays["head"], 0)}
                arrays["plain"] = np.zeros((cells + 1, 6, channels_of(dimension)))
                arrays["steps"] = np.zeros((dimension, 10))
            if arrays["steps"].shape == (dimension, 10):  # Where the features have been was not kept then.
                places = np.repeat(arrays["steps"][:, :1], 2, axis=1)
                arrays["steps"] = np.column_stack((arrays["steps"], places, np.zeros(dimension)))
                arrays["head"] = np.append(arrays["head"][:-1], arrays["head"][:1])
            if arrays["steps"].shape == (dimension, 13):  # Records that lack a feature counted like others then.
                arrays["steps"] = np.column_stack((arrays["steps"], np.zeros((dimension, 2))))
                arrays["plain"] = np.concatenate((arrays["plain"], np.zeros((cells + 1, 1, channels_of(dimension)))), 1)
            if is_older := "return" not in arrays:  # Nothing of what a unit was like before a change held again.
                arrays["head"] = np.append(arrays["head"], 0)
            if "relations" not in given:  # Features were not compared with the others then.
                arrays = packed_state(new_state(dimension, cells, 0)) | arrays
                arrays["head"] = np.append(arrays["head"], (0, layout.FIRST_PAIRS, layout.STILL, 0, 0, 0))
            watch._state = new_state(dimension, cells, related_of(watch._given, dimension))
            put_state(watch._state, arrays)
            if is_older:
                watch._state.kept[:] = watch._state.check // 2
        except (KeyError, TypeError, ValueError, IndexError, ParameterError) as error:
            raise StateError(f"the state of {KIND} cannot be read: {error!r}") from error
        return watch

    @classmethod
    def compile(cls) -> None:
        """Compile the kernels, so that the first record does not wait for it."""
        none = np.zeros(1, dtype=np.int64)
        cls(1).learn(np.zeros((1, 1)), none, none, none)
        inverse(np.eye(2))
        watch = cls(1)
        is_quiet(watch._state, 0)
        begin_sums(watch._state, 0)
        is_settling(watch._state, watch._rules)
