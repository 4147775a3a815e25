"""What a worker is doing, and whether it should be left alone (``/livez``) and given traffic (``/readyz``)."""

import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from faust.types import TP
from resonance.pipeline.checkpoint.restore import RestoreProgress
from resonance.pipeline.worker.assignment import Counters
from resonance.pipeline.worker.http.health import described
from resonance.pipeline.worker.processor import Processor

POLL_SECONDS: Final = 60.0
"""Age of the last round of the fetch loop above which a worker is not alive: it takes a fraction of a second, with and
without a broker, and longer only where something hangs."""

Phase = Literal["starting", "compiling kernels", "recovering", "joining", "restoring", "running", "stopping"]

_WAITS: Final[dict[Phase, str]] = {
    "starting": "starting: the topics are being checked",
    "compiling kernels": "the engine's kernels are being loaded, or compiled, which takes about a minute once",
    "recovering": "the recovery that was asked for is carried out",
    "joining": "waiting for the consumer group to assign partitions",
    "stopping": "stopping",
}


@dataclass(slots=True)
class WorkerStatus:
    """The state of a worker as its pages show it.

    The loop's thread writes it, and any thread may read.

    Attributes
    ----------
    phase : str
        What the worker is at.
    progress : RestoreProgress or None
        Of the last restore.
    assigned : collection of TP
        Partitions whose records flow.
    rebalances : int
        Times that partitions were given up for a rebalance.
    recovery_seconds, recovery_records : float, int
        What the last restore took, and how many records it learned again.
    failure : BaseException or None
        Why the worker ends.
    app : WorkerApp or None
        Once it is made.
    processor : Processor or None
        Once it is made.
    """

    phase: Phase = "starting"
    progress: RestoreProgress | None = None
    assigned: Collection[TP] = ()
    rebalances: int = 0
    recovery_seconds: float = 0.0
    recovery_records: int = 0
    failure: BaseException | None = None
    app: Any = None
    processor: Processor | None = None

    def enter(self, phase: Phase) -> None:
        """Go on to a phase; a worker that was told to stop stays at that, whatever its threads have reached."""
        if self.phase != "stopping":
            self.phase = phase

    @property
    def consumer(self) -> Any:
        """Faust's consumer; None before there is one."""
        return getattr(self.app, "_consumer", None)

    @property
    def poll_age(self) -> float | None:
        """Seconds since the fetch loop went round; None while it rests, as it does before and during rebalances."""
        consumer = self.consumer
        if consumer is None or consumer.polled is None or not consumer.flow_active:
            return None
        return max(time.monotonic() - float(consumer.polled), 0.0)

    def live(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the worker is alive, and what the page says. The broker has no part in it."""
        age = self.poll_age
        problems = []
        if age is not None and age > POLL_SECONDS:
            problems.append(f"the fetch loop has not gone round for {age:.0f} s (at most {POLL_SECONDS:g} s are fine)")
        if self.processor is not None and (hang := self.processor.hang()):
            problems.append(hang)
        shown = {"live": not problems, "problems": problems, "state": self.phase}
        return not problems, shown | {"poll_age_seconds": None if age is None else round(age, 3)}

    def problems(self) -> list[str]:
        """Return why records do not flow and become answers; nothing when they do, or when there are none for us."""
        if self.failure is not None:
            return [f"it ends: {self.failure}"]
        if self.processor is None or self.app is None or self.phase != "running":
            return [self._waiting()]
        if self.app.rebalancing or not (self.assigned or self.app.unassigned):
            return [_WAITS["joining"]]
        if self.consumer is not None and not self.consumer.has_coordinator:
            return ["the group's coordinator is not known, as long as no broker answers; look at the brokers"]
        pauses = self.processor.pauses
        stuck = {tp: why for tp, why in pauses.stuck.copy().items() if tp not in pauses.paused}
        return [*sorted(pauses.paused.copy().values()), *sorted(stuck.values())]

    def _waiting(self) -> str:
        if self.phase in _WAITS:
            return _WAITS[self.phase]
        progress = self.progress or RestoreProgress()
        return (
            f"restoring {progress.partitions} partitions: {progress.replayed:,} of about {progress.wanted:,} records "
            "learned again"
        )

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether records flow and become answers, why not, the counters, and what was seen of partitions."""
        problems = self.problems()
        counters = asdict(Counters() if self.processor is None else self.processor.counters)
        owned = {} if self.processor is None else self.processor.partitions
        return not problems, {
            "ready": not problems,
            "state": self.phase,
            "problems": problems,
            "partitions": [named(tp) for tp in sorted(self.assigned)],
            **{name: round(value, 3) for name, value in counters.items()},
            "seen": {named(tp): described(owned[tp]) for tp in sorted(owned)},
        }


def named(tp: TP) -> str:
    """Return a partition as messages name it."""
    return f"{tp.topic}[{tp.partition}]"
