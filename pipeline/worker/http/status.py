"""What a worker is doing, whether it should be left running (``/livez``) and given traffic (``/readyz``)."""

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from faust.types import TP
from resonance.pipeline.checkpoint.restore import RestoreProgress
from resonance.pipeline.errors import counted
from resonance.pipeline.repartition.placing import Placing
from resonance.pipeline.worker.assignment import AssignedPartition, Counters
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.transport.log_ends import KNOWN_SECONDS, Lag

POLL_SECONDS: Final = 60.0
"""Age of the fetch loop's last round above which a worker is not alive: a round takes a fraction of a second, with and
without a broker, and longer only where something hangs."""

Phase = Literal["starting", "compiling kernels", "recovering", "joining", "restoring", "running", "stopping"]

_WAITS: Final[dict[Phase, str]] = {
    "starting": "starting: the topics are being checked",
    "compiling kernels": "the engine's kernels are being loaded, or compiled, which takes half a minute once",
    "recovering": "the recovery that was requested is carried out",
    "joining": "waiting for the consumer group to assign partitions",
    "stopping": "stopping",
}


@dataclass(slots=True)
class HeldRecords:
    """Records that wait for an open transaction, from an offset on."""

    offset: int
    since: float
    """Monotonic time of the first look that found it."""
    warning: str = ""
    """What is said of it once it has been open for some time."""
    is_logged: bool = False


@dataclass(slots=True)
class WorkerStatus:
    """The state of a worker as its pages show it; any thread may read it."""

    phase: Phase = "starting"
    progress: RestoreProgress | None = None
    """Of the last restore."""
    assigned: Collection[TP] = ()
    """Partitions whose records flow."""
    rebalances: int = 0
    """Times that partitions were given up for a rebalance."""
    recovery_seconds: float = 0.0
    """Duration of the last restore."""
    recovery_records: int = 0
    """Records that the last restore learned again."""
    failure: BaseException | None = None
    """Why the worker ends."""
    app: Any = None
    """The `WorkerApp`, once it is made."""
    processor: Processor | None = None
    placing: Placing | None = None
    """Where records are learned, once the partitions of the topics are known."""
    held_back: Mapping[TP, HeldRecords] = field(default_factory=dict)
    """By partition."""

    def enter(self, phase: Phase) -> None:
        """Enter a phase; a stopping worker stays in that one, whatever its threads have reached."""
        if self.phase != "stopping":
            self.phase = phase

    @property
    def consumer(self) -> Any:
        """Faust's consumer; None before there is one."""
        return getattr(self.app, "_consumer", None)

    @property
    def poll_age(self) -> float | None:
        """Seconds since the fetch loop's last round; None while it rests, as before and during rebalances."""
        consumer = self.consumer
        if consumer is None or consumer.polled is None or not consumer.flow_active:
            return None
        return max(time.monotonic() - float(consumer.polled), 0.0)

    def lags(self) -> dict[TP, Lag | None]:
        """Return how many records of each partition wait; None where it is not known where its log ends."""
        owned = {} if self.processor is None else self.processor.partitions
        ends = {} if self.consumer is None else self.consumer.ends()
        return {tp: Lag.of(part.answered, ends[tp]) if tp in ends else None for tp, part in owned.items()}

    def live(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the worker is alive, and what the page shows; the broker has no part in it."""
        age = self.poll_age
        problems = []
        if age is not None and age > POLL_SECONDS:
            problems.append(f"the fetch loop has not gone round for {age:.0f} s (at most {POLL_SECONDS:g} s are fine)")
        if self.processor is not None and (hang := self.processor.hang()):
            problems.append(hang)
        shown = {"live": not problems, "problems": problems, "state": self.phase}
        return not problems, shown | {"poll_age_seconds": None if age is None else round(age, 3)}

    def problems(self) -> list[str]:
        """Return why records do not become outputs; empty when they do, or when this worker gets no partition."""
        if self.failure is not None:
            return [f"it ends: {self.failure}"]
        if self.processor is None or self.app is None or self.phase != "running":
            return [self.waiting()]
        if self.app.rebalancing or not (self.assigned or self.app.unassigned):
            return [_WAITS["joining"]]
        if self.consumer is not None and not self.consumer.has_coordinator:
            return ["the group's coordinator is not known, as long as no broker answers; look at the brokers"]
        if overdue := self.processor.overdue():
            return [overdue]
        if self.consumer is not None and (silent := self.consumer.silent()):
            return [
                f"{named(silent[0])}{f' and {len(silent) - 1} more' if silent[1:] else ''}: no broker has answered for "
                f"{KNOWN_SECONDS:g} s, so that it is not known what waits there; look at the partition's leader"
            ]
        return sorted(self.processor.pauses.paused.copy().values())

    def waiting(self) -> str:
        """Return what a worker waits for that does not run."""
        if self.phase in _WAITS:
            return _WAITS[self.phase]
        progress = self.progress or RestoreProgress()
        return (
            f"restoring {counted(progress.partitions, 'partition')}: {progress.replayed:,} of about "
            f"{counted(progress.wanted, 'record')} learned again"
        )

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether records become outputs, and the page: why not, the counters, what was seen of partitions."""
        problems = self.problems()
        counters = asdict(Counters() if self.processor is None else self.processor.counters)
        owned = {} if self.processor is None else self.processor.partitions
        lag = Lag.total(self.lags().values()) if self.phase == "running" else None
        return not problems, {
            "ready": not problems,
            "state": self.phase,
            "problems": problems,
            # Of what this worker cannot change.
            "warnings": [held.warning for _, held in sorted(self.held_back.items())],
            # None where it is not known.
            "waiting": None if lag is None else lag.waiting,
            "unstable": None if lag is None else lag.unstable,
            "partitions": [named(tp) for tp in sorted(self.assigned)],
            **{name: round(value, 3) for name, value in counters.items()},
            "seen": {named(tp): described(owned[tp]) for tp in sorted(owned)},
        }


def described(partition: AssignedPartition) -> dict[str, Any]:
    """Return where a partition stands and what was seen in it since it was assigned, records learned again included.

    The partition may be at work in another thread.
    """
    counts, models = partition.task.counts, partition.task.models
    compared, outside, *_ = counts.totals
    return {
        "position": partition.position,
        "answered": partition.answered,
        # Where a restart would begin to read; None before the first commit.
        "replay_from": partition.writer.recovery_offset,
        "records": counts.records,
        "skipped": counts.skipped,
        "dead_letters": dict(counts.dead_letters),
        "streams": len(models),
        # Share of the values outside their frozen range; None before there is one.
        "outside_range": round(outside / compared, 6) if compared else None,
    }


def named(tp: TP) -> str:
    """Return the name of a partition in messages."""
    return f"{tp.topic}[{tp.partition}]"
