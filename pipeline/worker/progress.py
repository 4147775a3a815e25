"""What a running worker says of its work: a line every ten seconds, when it has caught up, and what makes dead letters.

The event loop's thread reads what the processor counts; nothing is counted for it on a record's path.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import orjson
from faust.types import TP
from resonance.pipeline.config.fields import FIELD
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import counted, first_of, nearest
from resonance.pipeline.files.described import paths_of
from resonance.pipeline.task.counts import Counts, DeadLetterExample, Totals
from resonance.pipeline.task.range_changes import together
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.held_back import HeldBack, held_seconds
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.transport.log_ends import Lag, LogEnd

INTERVAL: Final = 10.0
"""Seconds between two lines."""

LOOK: Final = 1.0
"""Seconds between two looks at dead letters and lag."""

DOMINANT: Final = 0.5
"""Share of dead letters among new records from which a warning is due."""

FEWEST: Final = 20
"""New records from which such a share means something."""

HINT: Final = 3_600.0
"""Seconds between two hints at features that leave their range again and again."""

JOINING: Final = 5.0
"""Seconds without a partition after which it is said why; a broker itself waits three for a new group's members."""

AFTER_ERROR: Final = 60.0
"""Seconds until the next look after one that failed."""

_log = logging.getLogger(__name__)


async def report(status: WorkerStatus, settings: Settings) -> None:
    """Say from time to time what a worker does, until this is cancelled."""
    needed = (*(settings.features or ()), *paths_of(settings).get("stream", ()))
    progress = Progress(status, needed, session_timeout=settings.broker.session_timeout)
    held_back = HeldBack(status, settings.broker.bootstrap, held_seconds(settings))
    while True:
        await asyncio.sleep(LOOK)
        try:
            if status.phase == "running" and status.consumer is not None:
                await status.consumer.query_ends()
            await held_back.look()
            progress.look()
        except Exception:  # a line of the log is no reason to end, and none to end unseen
            _log.exception("what the worker does cannot be said; it goes on, and so does this in %g s", AFTER_ERROR)
            await asyncio.sleep(AFTER_ERROR)


def models_of(settings: Settings, partitions: int) -> str:
    """Return how many models there will be with inputs of a number of partitions, and what decides it."""
    topics = len(settings.input.topics)
    inputs = partitions * topics
    choice = settings.check_stream(inputs)
    if choice == "partition":
        of = (
            f"a model for each of {inputs} input partitions" if inputs > 1 else "one model: the input has one partition"
        )
        more = (
            '; records that belong together must be in one partition, else set stream = "topic"' if inputs > 1 else ""
        )
        return f"stream = partition: {of}{more}"
    if choice == "topic":
        of = "one model for all records" if topics == 1 else f"a model for each of {topics} topics"
        return f"stream = topic: {of}"
    what = "key of the records" if choice == "key" else f"value of {choice.removeprefix(FIELD)} in the records"
    return f"stream = {choice}: a model for each {what}, at most {settings.limits.streams:,} in a partition"


class Progress:
    """Logs what the worker of a `status` does; `features` are what each record needs, where settings list it.

    A killed worker holds its partitions for `session_timeout` seconds. A record that is routed counts once, as a
    record of its input.
    """

    def __init__(
        self,
        status: WorkerStatus,
        features: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        *,
        session_timeout: float,
    ) -> None:
        self._status = status
        self._session_timeout = session_timeout
        self._features = features
        self._clock = clock
        self._last = clock()
        self._records = self._routes = 0
        self._dead = Counter[tuple[str, str]]()
        self._looked = 0
        self._looked_dead = Counter[tuple[str, str]]()
        self._warned: set[tuple[str, str]] = set()
        self._caught_up = False
        self._ends: Mapping[TP, LogEnd] = {}
        self._idle = False
        self._joining_since: float | None = None
        self._hinted = -math.inf
        self._hint_before = ""

    def look(self) -> None:
        """Log what is due: to be called about once in `LOOK` seconds."""
        processor = self._status.processor
        self._say_what_the_group_waits_for()
        if processor is None or self._status.phase != "running" or not processor.partitions:
            self._last, self._caught_up = self._clock(), False
            return
        counters, dead = processor.counters, self._dead_letters()
        records = counters.records - counters.routes
        # A route that is no use is a dead letter of the second stage.
        self._warn(max(records, counters.routes), dead)
        lag = self._lag()
        if lag is not None and not lag.waiting and counters.records and not self._caught_up:
            self._caught_up = True
            _log.info("caught up: every record of the assigned partitions is answered")
        elif lag is not None and (
            lag.readable > self._rate(max(records - self._records, counters.routes - self._routes)) * INTERVAL
            or self._status.held_back
        ):
            self._caught_up = False
        if self._caught_up:
            self._say_what_leaves_its_range()
        if self._clock() - self._last >= INTERVAL:
            self._line(records, counters.routes, dead, lag)

    def _say_what_the_group_waits_for(self) -> None:
        """Log once in each join that takes long why that can be so."""
        if self._status.phase != "joining":
            self._joining_since = None
        elif self._joining_since is None:
            self._joining_since = self._clock()
        elif self._clock() - self._joining_since >= JOINING:
            self._joining_since = math.inf
            _log.info(
                "no partition yet: after a worker was killed, its group waits until its session ends, at most %g s",
                self._session_timeout,
            )

    def _say_what_leaves_its_range(self) -> None:
        """Warn of features that no range fits, when the models are up to date, and again after more changes."""
        if self._clock() - self._hinted < HINT:
            return
        hint = together(partition.task.health.ranges.found() for partition in self._partitions).hint
        if hint and hint != self._hint_before:
            _log.warning("%s", hint)
            self._hinted, self._hint_before = self._clock(), hint

    @property
    def _partitions(self) -> list[AssignedPartition]:
        return [] if self._status.processor is None else list(self._status.processor.partitions.values())

    def _rate(self, new: int) -> float:
        return new / max(self._clock() - self._last, LOOK)

    def _line(self, records: int, routes: int, dead: Counter[tuple[str, str]], lag: Lag | None) -> None:
        """Log one line about the records since the one before; one line when there are none any more."""
        new, new_routes, new_dead = records - self._records, routes - self._routes, dead - self._dead
        if new or new_routes or not self._idle:
            listed = ", ".join(f"{count:,} {kind}" for (_, kind), count in new_dead.most_common(3))
            parts = [
                f"{counted(new, 'record')} ({self._rate(new):,.0f}/s)"
                + (f", {counted(new_routes, 'route')}" if new_routes > new else ""),
                counted(new_dead.total(), "dead letter") + (f" ({listed})" if listed else ""),
                counted(sum(partition.task.health.clusters for partition in self._partitions), "cluster"),
            ]
            of_each = (partition.task.counts.totals for partition in self._partitions)
            if text := Totals(*map(sum, zip(*of_each, strict=True))).warm_up_text:
                parts.append(text)
            if lag is None:
                parts.append("how many wait is not known")
            elif lag.waiting:
                held = f", {lag.unstable:,} of them wait for an open transaction" if lag.unstable else ""
                parts.append(f"{counted(lag.waiting, 'record')} behind{held}")
            else:
                parts.append("nothing waits")
            _log.info("%s", "; ".join(parts))
        self._idle = not (new or new_routes)
        self._last, self._records, self._routes, self._dead = self._clock(), records, routes, dead

    def _lag(self) -> Lag | None:
        """Return how many of the records wait that were there at the look before; None where that is not known.

        The newest ones are on their way.
        """
        consumer, processor = self._status.consumer, self._status.processor
        before, self._ends = self._ends, {} if consumer is None else consumer.ends()
        owned = {} if processor is None else processor.partitions
        if not owned or not owned.keys() <= self._ends.keys():
            return None
        return Lag.total(
            min((Lag.of(part.answered, end) for end in (before.get(tp, self._ends[tp]), self._ends[tp])), key=sum)
            for tp, part in owned.items()
        )

    def _dead_letters(self) -> Counter[tuple[str, str]]:
        """Return the dead letters by stage and class, without those of records that a restore learned again."""
        total = Counter[tuple[str, str]]()
        for partition in self._partitions:
            total += partition.task.counts.since(partition.learned_again or Counts()).dead_letters_by_stage
        return total

    def _warn(self, records: int, dead: Counter[tuple[str, str]]) -> None:
        """Warn once for each class of dead letters that are most of the new records, with its first example."""
        new = records - self._looked
        if new < FEWEST:
            return
        found = dead - self._looked_dead
        self._looked, self._looked_dead = records, dead
        if found.total() < DOMINANT * new:
            return
        kind, count = found.most_common(1)[0]
        if kind in self._warned:
            return
        self._warned.add(kind)
        seen = (partition.task.counts.dead_letter_examples for partition in self._partitions)
        first = (example for examples in seen for example in examples.get(kind, ()))
        example = min(first, key=attrgetter("age"), default=None)
        shown = "" if example is None else f"; the first one, {example.where}: {example.message}"
        hint = "" if example is None else self._hint(example)
        _log.warning("%d of the last %d records are dead letters of class %s%s%s", count, new, kind[1], shown, hint)

    def _hint(self, example: DeadLetterExample) -> str:
        """Return which member of the record is nearest to the feature that it lacks, or which members it has."""
        missing = next((name for name in self._features if example.message.startswith(f"{name} is missing")), None)
        if missing is None:
            return ""
        try:
            members = list(_paths(orjson.loads(example.value)))
        except orjson.JSONDecodeError:
            return ""
        return f". The record has {first_of(members, 10)}{nearest(missing, members)}"


def _paths(value: Any, before: str = "") -> list[str]:
    """Return the dotted paths of the members of a record that are no objects."""
    if not isinstance(value, dict):
        return [before] if before else []
    return [path for name, inner in value.items() for path in _paths(inner, f"{before}.{name}" if before else name)]
