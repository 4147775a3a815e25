"""The rules of the alerts that follow from answers, drift events and dead letters, and when they open."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from resonance.engine.base import IntArray, Step
from resonance.engine.drift import DriftChange
from resonance.engine.prepare import AnyPreparation, Preparation
from resonance.pipeline.task.alerts.kernels import stream_rules
from resonance.pipeline.task.alerts.open_alerts import OpenAlerts, StreamAlerts, Transition
from resonance.pipeline.task.decode.record_batch import slice_of
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.schemas import AlertFeature, AlertRule

if TYPE_CHECKING:
    from resonance.pipeline.task.model.learn_result import LearnResult

# Beside `alerts.rarity`; docs/alerts.md has these numbers.
NEW_CLUSTER_SHARE: Final = 0.1
"""Share of recent records from which a new cluster is large."""
ONE_CLUSTER_SHARE: Final = 0.98
ONE_CLUSTER_RECORDS: Final = 10_000
"""Records of which one cluster takes nearly all."""
UNCONFIRMED_RECORDS: Final = 5_000
"""Records without a confirmed cluster."""
DEAD_LETTERS_SHARE: Final = 0.05
DEAD_LETTERS_WINDOW: Final = 1_000
"""Last records of a partition whose dead letters are counted."""
SILENT_GAPS: Final = 20.0
"""Usual gaps after which a stream is silent."""
SILENT_SECONDS: Final = 60.0
"""Seconds after which it is, at least."""
DOUBLED: Final = 2.0
"""Factor by which a share must have grown."""
VANISHED: Final = 0.1
"""Part of a share that is left at most where it counts as vanished."""

ROOM: Final = 64
"""Transitions that one call of the kernel returns at most."""

_RULES: Final[tuple[AlertRule, ...]] = ("unlike", "unconfirmed", "one_cluster", "new_cluster")
"""The rules, as the kernel numbers them."""

_EVIDENCE: Final = (("records", "unlike", "usual", "known"), ("answers", "records"), ("answers", "records"),
                    ("records", "share", "threshold"))  # fmt: skip
"""Names of the numbers that the kernel returns with each of these rules."""


class AnswerRules:
    """Runs the rules on the answers of every stream of a partition.

    `rules` are those that are on, `evidence` is the logarithm of the records between two false alerts, and a record is
    unusual whose score is below `unusual`.
    """

    def __init__(self, rules: Collection[AlertRule], evidence: float, unusual: float = 0.0) -> None:
        share = ONE_CLUSTER_SHARE
        self._limits = np.array(
            [
                evidence if "unlike" in rules else 0.0,
                UNCONFIRMED_RECORDS if "unconfirmed" in rules else 0,
                ONE_CLUSTER_RECORDS if "one_cluster" in rules else 0,
                round(share / (1.0 - share)),
                NEW_CLUSTER_SHARE if "new_cluster" in rules else 0.0,
                unusual,
            ]
        )
        self._new_cluster = "new_cluster" in rules
        self._out: IntArray = np.empty((ROOM, 5), np.int64)
        self._numbers = np.empty((ROOM, 4))

    def switch_off(self, alerts: StreamAlerts) -> None:
        """Forget what rules that are off have open in a restored state."""
        stream_rules.switch_off(alerts.integers, alerts.floats, self._limits)

    def transitions(
        self, alerts: StreamAlerts, rows: Any, result: "LearnResult", texts: StreamTexts, preparation: AnyPreparation
    ) -> list[tuple[int, Transition]]:
        """Return the alerts of a stream that open or clear with its answers, each with its row.

        `rows` are those that `result` is of; `preparation` still has the units that they were prepared in.
        """
        places = result.learned
        times = result.marks.times[slice_of(places)]
        found: list[tuple[int, Transition]] = []
        # Late labels cause events, too, and have no answers.
        start, count = 0, len(places)
        for at, event in result.events if self._new_cluster else ():
            if event.path:
                continue
            # The record that caused an event was answered before.
            stop = start
            while stop < count and places[stop] <= at:
                stop += 1
            self._run(alerts, rows, result, times, start, stop, texts, preparation, found)
            start = stop
            if event.kind == "emerged":
                stream_rules.emerged(alerts.integers, alerts.floats, event.cluster)
            elif event.kind != "split" and stream_rules.ended(alerts.integers, alerts.floats, event.cluster):
                found.append((at, Transition("new_cluster", False, {}, texts.cluster_id((), event.cluster))))
        self._run(alerts, rows, result, times, start, count, texts, preparation, found)
        return found

    def _run(
        self,
        alerts: StreamAlerts,
        rows: Any,
        result: "LearnResult",
        times: IntArray,
        start: int,
        stop: int,
        texts: StreamTexts,
        preparation: AnyPreparation,
        found: list[tuple[int, Transition]],
    ) -> None:
        step: Any = result.step
        while start < stop:
            count, start = stream_rules.follow(
                step.cluster, step.novel, step.score, times, start, stop, alerts.integers, alerts.floats, self._limits,
                self._out, self._numbers,
            )  # fmt: skip
            for (row, rule, opened, cluster, began), numbers in zip(
                self._out[:count].tolist(), self._numbers[:count].tolist(), strict=True
            ):
                name = texts.cluster_id((), cluster) if cluster >= 0 else None
                evidence = dict(zip(_EVIDENCE[rule], numbers, strict=False))
                at, is_unlike = result.learned[row], opened and rule == stream_rules.UNLIKE_RULE
                features = _outside(step, row, rows[at], preparation) if is_unlike else []
                since = None if began == stream_rules.UNKNOWN else began
                found.append((at, Transition(_RULES[rule], bool(opened), evidence, name, features, since)))


def _outside(step: Step, row: int, record: Any, preparation: AnyPreparation) -> list[AlertFeature]:
    """Return the features that a record is outside in, in the units of the input; a principal axis is none.

    The value is the record's own where it has one: the prepared one is cut off far outside, and moved within its step.
    """
    if step.outside is None or not isinstance(preparation, Preparation) or preparation.projects:
        return []
    named = step.outside[row][~np.isnan(step.outside[row, :, 0])]
    columns, numbers = named[:, 0].astype(np.int64), np.zeros((3, preparation.dimension))
    numbers[:, columns] = named[:, 1:].T
    values = [preparation.to_input_units(each, np.zeros_like(each))[0][columns].tolist() for each in numbers]
    names = preparation.known_features
    own = {names[feature]: float(record[feature]) for feature in np.flatnonzero(~np.isnan(record))}
    return [
        {"feature": name, "value": own.get(name, value), "low": low, "high": high}
        for name, value, low, high in zip(preparation.names_of(columns), *values, strict=True)
    ]


def drift_transitions(
    alerts: OpenAlerts, change: DriftChange, name: Callable[[int], str], rules: Collection[AlertRule]
) -> Iterator[Transition]:
    """Yield the alerts that open or clear with a drift event.

    Parameters
    ----------
    alerts : OpenAlerts
        The open alerts of the stream before the event.
    name : callable
        Returns the id of a cluster as messages have it.
    rules : collection of str
        Those that are on.
    """
    if change.kind == "drift":
        if "drift_open" in rules:
            yield Transition("drift_open", True, {"units": float(len(change.units))})
        for unit in change.units if "share" in rules else ():
            before, after = unit.share_before, unit.share_after
            is_other = after >= DOUBLED * before or after <= VANISHED * before
            if unit.unit and unit.cluster >= 0 and unit.share and is_other:
                yield Transition("share", True, {"before": before, "after": after}, name(unit.cluster))
    elif change.kind in ("settled", "recovered"):
        for rule, cluster in [key for key in alerts.open if key[0] in ("drift_open", "share")]:
            yield Transition(rule, False, {}, cluster)


class DeadLetterShare:
    """Counts the dead letters among the last `window` records; those that have not come yet count as good."""

    def __init__(self, window: int, share: float) -> None:
        self.until = 0
        """Records below this offset are counted."""
        self._window = window
        self._high = share * window
        self._dead = np.zeros(window, np.bool_)
        self._any = self._open = False

    def take(self, offsets: IntArray, dead: Sequence[int]) -> list[tuple[int, bool, int]]:
        """Count records at ascending offsets; `dead` are the positions of dead letters, in any order.

        Return where the share passed its bounds: the position, whether upwards, and the dead letters by then.
        """
        start = int(np.searchsorted(offsets, self.until))
        if start == len(offsets):
            return []
        self.until = int(offsets[-1]) + 1
        # Mostly there is none, and small batches are many.
        if not dead and not self._any and not self._open:
            return []
        fresh = np.zeros(len(offsets), np.bool_)
        fresh[list(dead)] = True
        fresh = fresh[start:]
        flags = np.concatenate((self._dead, fresh))
        total = np.concatenate(([0], np.cumsum(flags)))
        counts = total[self._window + 1 :] - total[1 : len(fresh) + 1]
        self._dead = flags[len(fresh) :]
        self._any = bool(self._dead.any())
        found: list[tuple[int, bool, int]] = []
        place = 0
        while True:
            passed = counts[place:] <= 0.5 * self._high if self._open else counts[place:] > self._high
            if not passed.any():
                return found
            place += int(passed.argmax())
            self._open = not self._open
            found.append((start + place, self._open, int(counts[place])))

    def state(self) -> dict[str, Any]:
        """Return the state in a form that JSON can hold: how many records ago each dead letter was."""
        ages = (self._window - np.flatnonzero(self._dead)).tolist()
        return {"until": self.until, "ages": ages, "open": self._open}

    def restore(self, content: Any) -> None:
        """Continue from a `state`."""
        self.until, self._open = int(content["until"]), bool(content["open"])
        ages = [age for age in map(int, content["ages"]) if 0 < age <= self._window]
        self._dead[[self._window - age for age in ages]] = True
        self._any = bool(ages)
