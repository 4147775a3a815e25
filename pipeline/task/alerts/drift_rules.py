"""Alerts that follow from the drift events of a stream: the drift is open, a cluster's share doubled or vanished."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from resonance.engine.drift import DriftChange
from resonance.pipeline.task.alerts.open_alerts import OpenAlerts, Transition
from resonance.schemas import AlertRule

DOUBLED: Final = 2.0
"""Factor by which a share must have grown."""

VANISHED: Final = 0.1
"""Part of a share that is left at most where it counts as vanished."""


def transitions(
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
