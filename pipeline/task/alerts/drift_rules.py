"""Alerts that follow from the drift events of a stream: the drift is open, a cluster's share doubled or vanished."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from resonance.pipeline.task.alerts.open_alerts import OpenAlerts, Transition

DOUBLED: Final = 2.0
"""Factor by which a share must have grown."""

VANISHED: Final = 0.1
"""Part of a share that is left at most where it counts as vanished."""


class DriftChange(Protocol):
    """A drift event, as far as alerts need it."""

    @property
    def kind(self) -> str:
        """``drift`` begins an episode, ``settled`` and ``recovered`` end it; others are none."""

    @property
    def units(self) -> Sequence[Mapping[str, Any]]:
        """What changed: ``cluster``, an id or None, and ``share`` with ``before`` and ``after``, where it did."""


def transitions(alerts: OpenAlerts, change: DriftChange, *, share: bool, drift_open: bool) -> Iterator[Transition]:
    """Yield the alerts that open or clear with a drift event; `share` and `drift_open` switch the rules."""
    if change.kind == "drift":
        if drift_open:
            yield Transition("drift_open", True, {"units": float(len(change.units))})
        for unit in change.units if share else ():
            own = unit.get("share")
            if unit.get("cluster") is not None and own and _is_other(own["before"], own["after"]):
                evidence = {"before": float(own["before"]), "after": float(own["after"])}
                yield Transition("share", True, evidence, unit["cluster"])
    elif change.kind in ("settled", "recovered"):
        for rule, cluster in [key for key in alerts.open if key[0] in ("drift_open", "share")]:
            yield Transition(rule, False, {}, cluster)


def _is_other(before: float, after: float) -> bool:
    return after >= DOUBLED * before or after <= VANISHED * before
