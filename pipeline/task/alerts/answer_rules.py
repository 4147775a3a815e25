"""Alerts that follow from the answers of a stream: unlike records, no or one cluster for all, a new large cluster."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from resonance.engine.base import IntArray
from resonance.pipeline.task.alerts import thresholds
from resonance.pipeline.task.alerts.kernels import stream_rules
from resonance.pipeline.task.alerts.open_alerts import StreamAlerts, Transition
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.schemas import AlertRule

if TYPE_CHECKING:
    from resonance.pipeline.task.model.learn_result import LearnResult

ROOM: Final = 64
"""Transitions that one call of the kernel returns at most."""

_RULES: Final[tuple[AlertRule, ...]] = ("unlike", "unconfirmed", "one_cluster", "new_cluster")
"""The rules, as the kernel numbers them."""

_EVIDENCE: Final = (("records", "unlike", "usual"), ("answers", "records"), ("answers", "records"),
                    ("records", "share", "threshold"))  # fmt: skip
"""Names of the numbers that the kernel returns with each of these rules."""


class AnswerRules:
    """Runs the rules on the answers of every stream of a partition.

    `rules` are those that are on; `evidence` is the logarithm of the records between two false alerts.
    """

    def __init__(self, rules: Collection[AlertRule], evidence: float) -> None:
        share = thresholds.ONE_CLUSTER_SHARE
        self._limits = np.array(
            [
                evidence if "unlike" in rules else 0.0,
                thresholds.UNCONFIRMED_RECORDS if "unconfirmed" in rules else 0,
                thresholds.ONE_CLUSTER_RECORDS if "one_cluster" in rules else 0,
                round(share / (1.0 - share)),
                thresholds.NEW_CLUSTER_SHARE if "new_cluster" in rules else 0.0,
            ]
        )
        self._new_cluster = "new_cluster" in rules
        self._out: IntArray = np.empty((ROOM, 4), np.int64)
        self._numbers = np.empty((ROOM, 3))

    def switch_off(self, alerts: StreamAlerts) -> None:
        """Forget what rules that are off have open in a restored state."""
        stream_rules.switch_off(alerts.integers, alerts.floats, self._limits)

    def transitions(
        self, alerts: StreamAlerts, result: "LearnResult", texts: StreamTexts
    ) -> list[tuple[int, Transition]]:
        """Return the alerts of a stream that open or clear with its answers, each with its row."""
        places = result.learned
        found: list[tuple[int, Transition]] = []
        # Late labels cause events, too, and have no answers.
        start, rows = 0, len(places)
        for at, event in result.events if self._new_cluster else ():
            if event.path:
                continue
            # The record that caused an event was answered before.
            stop = start
            while stop < rows and places[stop] <= at:
                stop += 1
            self._run(alerts, result, start, stop, texts, found)
            start = stop
            if event.kind == "emerged":
                stream_rules.emerged(alerts.integers, alerts.floats, event.cluster)
            elif event.kind != "split" and stream_rules.ended(alerts.integers, alerts.floats, event.cluster):
                found.append((at, Transition("new_cluster", False, {}, texts.cluster_id((), event.cluster))))
        self._run(alerts, result, start, rows, texts, found)
        return found

    def _run(
        self,
        alerts: StreamAlerts,
        result: "LearnResult",
        start: int,
        stop: int,
        texts: StreamTexts,
        found: list[tuple[int, Transition]],
    ) -> None:
        step: Any = result.step
        while start < stop:
            count, start = stream_rules.follow(
                step.cluster, step.novel, step.score, start, stop, alerts.integers, alerts.floats, self._limits,
                self._out, self._numbers,
            )  # fmt: skip
            for (row, rule, opened, cluster), numbers in zip(
                self._out[:count].tolist(), self._numbers[:count].tolist(), strict=True
            ):
                name = texts.cluster_id((), cluster) if cluster >= 0 else None
                evidence = dict(zip(_EVIDENCE[rule], numbers, strict=False))
                found.append((result.learned[row], Transition(_RULES[rule], bool(opened), evidence, name)))
