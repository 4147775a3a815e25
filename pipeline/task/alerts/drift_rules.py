"""Alerts that follow from the drift events of a stream: the drift is open, a cluster's share doubled or vanished."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from resonance.pipeline.task.alerts.open_alerts import OpenAlerts, Transition

DOUBLED: Final = 2.0
"""Factor by which a share must have grown."""

VANISHED: Final = 0.1
"""Part of a share that is left at most where it counts as vanished."""


class DriftUnit(Protocol):
    """What changed of a cluster, or of the stream as a whole, as far as alerts need it."""

    @property
    def unit(self) -> int:
        """0: the stream."""

    @property
    def cluster(self) -> int:
        """Id of the cluster; -1 for none."""

    @property
    def share(self) -> bool:
        """Whether its share of the stream changed."""

    @property
    def share_before(self) -> float:
        """Its share of the stream's records before."""

    @property
    def share_after(self) -> float:
        """Its share since."""


class DriftPhase(Protocol):
    """The watch of a stream reports that an episode of drift begins or ends."""

    @property
    def kind(self) -> str:
        """``drift`` begins an episode, ``settled`` and ``recovered`` end it."""

    @property
    def units(self) -> Sequence[DriftUnit]:
        """What changed."""


def transitions(
    alerts: OpenAlerts, change: DriftPhase, name: Callable[[int], str], *, share: bool, drift_open: bool
) -> Iterator[Transition]:
    """Yield the alerts that open or clear with a drift event.

    Parameters
    ----------
    alerts : OpenAlerts
        The open alerts of the stream before the event.
    name : callable
        Returns the id of a cluster as messages have it.
    share, drift_open : bool
        Whether the rules are on.
    """
    if change.kind == "drift":
        if drift_open:
            yield Transition("drift_open", True, {"units": float(len(change.units))})
        for unit in change.units if share else ():
            before, after = unit.share_before, unit.share_after
            is_other = after >= DOUBLED * before or after <= VANISHED * before
            if unit.unit and unit.cluster >= 0 and unit.share and is_other:
                yield Transition("share", True, {"before": before, "after": after}, name(unit.cluster))
    elif change.kind in ("settled", "recovered"):
        for rule, cluster in [key for key in alerts.open if key[0] in ("drift_open", "share")]:
            yield Transition(rule, False, {}, cluster)
