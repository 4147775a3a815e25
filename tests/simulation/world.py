"""A run of the simulation: two workers, a broker, the faults of one seed, and the checks."""

import logging
import re
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError
from resonance.pipeline.checkpoint import restore
from resonance.pipeline.errors import BrokerError, DeliveryError, MismatchError, ResonanceError
from resonance.pipeline.kafka import log_reader, producer
from resonance.pipeline.memory_budget import LEAST, MemoryBudget
from resonance.pipeline.worker import command_queue, commits, processor, watchdog, worker
from resonance.pipeline.worker.delivery import delivery, exactly_once, gone_workers, transaction_errors
from resonance.pipeline.worker.delivery.open_transactions import LeftOpen

from tests.pipeline.streams import TOPIC
from tests.simulation import admin, checks, clients, member
from tests.simulation.broker import Broker
from tests.simulation.group import Group
from tests.simulation.network import FATES, Network, Weather
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.standins import StandIns

FAULT_SECONDS = 8.0
"""Time in which faults happen."""
PROGRESS_SECONDS = 150.0
"""Time after the last fault in which all of the input must be committed."""
KINDS = ("init", "add", "add offsets", "offsets", "end", "produce", "commit", "lookup", "fetch", "group")

ALLOWED = "was replaced by one at|the topic's retention has deleted"
"""What a start may say at least once: a worker that has lost its partitions may write one snapshot more."""

INPUT = [(TOPIC, number) for number in range(checks.PARTITIONS)]


@dataclass
class Plan:
    """What the seed decided."""

    seed: int
    mode: str
    layout: int
    weather: Weather
    timeout: float
    changed: dict[str, Any]

    @classmethod
    def of(cls, seed, random):
        """Draw a plan; each seed has only some of the faults, so that none hides behind another."""
        mode = "exactly_once" if random.random() < 0.75 else "at_least_once"
        share = random.choice((0.0, 0.05, 0.2, 0.6))
        fates = {name: share * random.random() for name in FATES if random.random() < 0.4}
        # A worker takes a second to start again.
        fates |= {name: 0.1 * chance for name, chance in fates.items() if name.startswith("killed")}
        kinds = frozenset(random.sample(KINDS, random.randint(1, len(KINDS))))
        hang = random.choice((0.0, 0.0, 0.03))
        timeout = random.choice((4.0, 8.0, 20.0))
        changed = {
            "delivery__mode": mode,
            "delivery__transaction_timeout": timeout,
            "delivery__commit_interval": random.choice((0.05, 0.1, 0.5)),
            "snapshots__records": random.choice((5, 15, 40)),
        }
        return cls(
            seed, mode, random.randrange(checks.LAYOUTS), Weather(FAULT_SECONDS, fates, kinds, hang), timeout, changed
        )


class SimulatedWorker(worker.Worker):
    """The worker with a task that takes simulated time, and without the checks of topics and kernels at its start."""

    def __init__(self, world, settings):
        super().__init__(settings)
        self._world = world

    def _check(self):
        self._source, self._memory = checks.source(self._settings), MemoryBudget(LEAST)
        self._status.enter("joining")
        return self._source.deployment

    def _make_task(self, source, topic, partition):
        task, sim = super()._make_task(source, topic, partition), self._world.sim
        self._world.tasks += 1
        for name in ("process", "catch_up"):
            setattr(task, name, partial(self._slowly, getattr(task, name), sim))
        return task

    async def _close(self, *, everything=False, lost=False):
        processor, before = self._processor, self._failure
        rests = processor._activity._step is None and processor.commits.running is None
        await super()._close(everything=everything, lost=lost)
        if lost and rests and before is None and isinstance(self._failure, DeliveryError):
            self._world.sim.fail(
                checks.ViolationError(f"a worker that was committing nothing ends for a loss: {self._failure}")
            )

    @staticmethod
    def _slowly(call, sim, records):
        sim.wait(len(records) * sim.random.expovariate(1 / 0.002))
        return call(records)


class World:
    """One run."""

    def __init__(self, seed, *, show=False):
        self.seed = seed
        self.sim = Scheduler(seed)
        self.plan = Plan.of(seed, self.sim.random)
        self.network = Network(self.sim, self.plan.weather, show=show)
        self.group = Group(self.sim, INPUT, session=3.0)
        self.broker = Broker(self.sim, self.group, self._committed)
        self.broker.slow_markers = self.sim.random.choice((0.005, 0.05, 0.4))
        self.checks = checks.Checks(self.plan.layout, atomic=self.plan.mode == "exactly_once")
        self.standins = StandIns(self.sim)
        self.running = {}
        self.workers = {}
        self.tasks = 0
        """Tasks that take simulated time."""
        # Of each start: which worker, and what ended it.
        self.ends = []
        self._over = False
        self.refused = None
        """What the mismatch says with which a start ended the run."""

    def run(self):
        """Run to the end; raises `ViolationError` where a promise was broken."""
        with self._patched():
            try:
                self._write_input()
                self._plan_faults()
                for name in ("one", "two"):
                    self.sim.at(self.sim.random.random(), partial(self._start, name))
                self._watch()
                if not self.refused:
                    self.checks.end(self.broker)
            finally:
                self._over = True
                for process in list(self.workers):
                    process.end("the end of the run")
                while any(process.threads for process in self.workers):
                    self.sim.main.process.dead = False
                    self.sim.wait(0.001)

    def _watch(self):
        """Wait until all of the input is committed."""
        wanted = {at: self.checks.reference.ends[at[1]] for at in INPUT}
        last = FAULT_SECONDS + PROGRESS_SECONDS
        while not all(self.group.offsets.get(at, (0,))[0] >= end for at, end in wanted.items()) or (
            self.sim.now < FAULT_SECONDS
        ):
            self.sim.wait(0.5)
            if self.sim.failure is not None:
                raise self.sim.failure
            if self.refused:
                return
            if self.sim.now > last:
                raise checks.ViolationError(f"no progress: offsets {self.group.offsets} of {wanted}, {self.ends[-3:]}")
        # Requests that are still on their way must change nothing any more.
        self.sim.wait(2.0)
        while not self.broker.settled:
            self.sim.wait(0.5)
        if self.sim.failure is not None:
            raise self.sim.failure

    def _committed(self, offsets):
        self.checks.committed(self.broker, offsets)

    # The input.

    def _write_input(self):
        random = self.sim.random
        for number in range(checks.PARTITIONS):
            log, now = self.broker.logs[TOPIC, number], 0.0
            for gap, record in checks.layout(self.plan.layout, number):
                now += random.expovariate(checks.RECORDS / FAULT_SECONDS) if random.random() < 0.7 else 0.0001
                self.sim.at(now, partial(_append, log, record, gap))

    # Workers.

    def _start(self, name, twin=False):
        if self._over or (name in self.running and not twin):
            return
        if twin:
            # A supervisor that made this mistake ends it again, or one of them fences the other for ever.
            self.sim.at(self.sim.random.uniform(0.5, 8.0), lambda: process.end("killed as a twin"))
        process = Process(name, lambda why: self._exited(process, why))
        settings = checks.given(worker__id=name, **self.plan.changed)

        def run():
            made = self.workers[process] = SimulatedWorker(self, settings)
            try:
                why = self.standins.run_loop(made.run)
            except ResonanceError as error:
                why = error
            except Exception as error:  # as `worker.run` does: an error of the program
                self.sim.fail(error)
                why = error
            process.end(why)

        self.running.setdefault(name, process)
        self.workers[process] = None  # type: ignore[assignment]
        self.sim.spawn(process, run)

    def _exited(self, process, why):
        self.network.note(process.name, f"ended: {why}")
        self.ends.append((process.name, str(why)))
        if isinstance(why, MismatchError):
            self.refused = re.search(ALLOWED, str(why)) if self.plan.mode == "at_least_once" else None
            if not self.refused:
                self.sim.fail(checks.ViolationError(f"{process.name} refuses to start: {why}"))
        if self.running.get(process.name) is process:
            del self.running[process.name]
        self.sim.at(self.sim.random.uniform(0.1, 2.0), partial(self._start, process.name))

    # Faults beside those of single requests.

    def _plan_faults(self):
        random, sim = self.sim.random, self.sim
        faults = (
            self._kill,
            self._freeze,
            self._silence,
            self._move,
            self._take_down,
            self._retain,
            self._stop,
            self._twin,
            self._rebalance,
            self._give_up,
            self.broker.forget,
        )
        chosen = [fault for fault in faults if random.random() < 0.35]
        for fault in chosen:
            for _ in range(random.randint(1, 3)):
                sim.at(random.uniform(0.5, FAULT_SECONDS), fault)

    def _any(self):
        alive = [process for process in self.workers if not process.dead]
        return self.sim.random.choice(alive) if alive else None

    def _kill(self):
        if (process := self._any()) is not None:
            process.end("killed")

    def _freeze(self):
        if (process := self._any()) is not None:
            process.frozen_until = self.sim.now + self.sim.random.uniform(0.5, 10.0)
            self.network.note(process.name, f"frozen until {process.frozen_until:.1f}")

    def _silence(self):
        """Let the group miss a worker that goes on."""
        consumer = self._consumer()
        if consumer is not None:
            consumer.silent_until = self.sim.now + self.sim.random.uniform(2.0, 8.0)
            self.network.note("", f"silent until {consumer.silent_until:.1f}")

    def _consumer(self):
        made = self.workers.get(self._any())  # type: ignore[arg-type]
        return made._status.consumer if made is not None else None

    def _move(self):
        code = self.sim.random.choice(
            (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)
        )
        which = self.sim.random.choice(("group", "transactions"))
        self.broker.moving[which] = self.sim.now + self.sim.random.expovariate(0.4), code
        self.network.note("broker", f"{which} {code}")

    def _take_down(self):
        self.network.down_until = self.sim.now + self.sim.random.expovariate(0.3)

    def _retain(self):
        """Delete a part of the input that snapshots cover."""
        for number in range(checks.PARTITIONS):
            below = checks.recovery_offset(self.broker, number)
            self.broker.logs[TOPIC, number].delete(self.sim.random.randint(0, below))

    def _stop(self):
        process = self._any()
        made = self.workers.get(process) if process else None  # type: ignore[arg-type]
        loop = getattr(made, "_loop", None)
        if loop is not None:
            loop.call_soon_threadsafe(loop.handlers[signal.SIGTERM])

    def _twin(self):
        """Start a second process of a worker while the first goes on, or is frozen and comes back."""
        name = self.sim.random.choice(("one", "two"))
        if (first := self.running.get(name)) is not None and self.sim.random.random() < 0.5:
            first.frozen_until = self.sim.now + self.sim.random.uniform(0.5, 10.0)
        self._start(name, twin=True)

    def _rebalance(self):
        self.group.rebalance()

    def _give_up(self):
        """Let a worker end for an error from outside its processor, whatever its threads do at the time."""
        made = self.workers.get(self._any())  # type: ignore[arg-type]
        if made is not None:
            made._loop.call_soon_threadsafe(made._fail, BrokerError("no broker describes the topics"))

    # The product's modules.

    @contextmanager
    def _patched(self):
        own, bound = self.standins, {"broker": self.broker, "network": self.network}
        watched = partial(watchdog.Watchdog, clock=own.time.monotonic)
        consumer = type("Consumer", (member.Consumer,), bound)
        app = type("App", (member.App,), {"consumer_class": consumer})
        asking = type("AdminClient", (admin.AdminClient,), bound)
        changes = [
            (processor, {"time": own.time, "threading": own.threading}),
            (commits, {"time": own.time, "Watchdog": watched, "ThreadPoolExecutor": own.ThreadPoolExecutor}),
            (command_queue, {"queue": own.queue, "Future": own.Future}),
            (exactly_once, {"time": own.time, "threading": own.threading, "Watchdog": watched, "Future": own.Future}),
            (transaction_errors, {"time": own.time}),
            (watchdog, {"time": own.time, "threading": own.threading, "os": own.os}),
            (producer, {"time": own.time, "Producer": type("Producer", (clients.Producer,), bound)}),
            (log_reader, {"time": own.time, "Consumer": type("Consumer", (clients.Consumer,), bound)}),
            # It asks a real network.
            (log_reader, {"wrong_listener": lambda *_, **__: None}),
            (restore, {"time": own.time}),
            (worker, {"time": own.time, "threading": own.threading, "make_app": app, "Pages": _NoPages}),
            (worker, {"look_again": lambda source, _: source, "report": _no_report}),
            (worker, {"make_registry": lambda *_: None, "TopicWatch": _NoTopicWatch}),
            # The simulated broker loses no marker.
            (delivery, {"left_open": lambda *_: LeftOpen([], [])}),
            (gone_workers, {"Producer": type("Producer", (clients.Producer,), bound)}),
            (gone_workers, {"AdminClient": asking}),
            (gone_workers, {"group_offsets": lambda client, *wanted: asking(client).group_offsets(*wanted)}),
        ]
        with pytest.MonkeyPatch.context() as patch:
            for module, names in changes:
                for name, value in names.items():
                    patch.setattr(module, name, value)
            logging.disable(logging.CRITICAL)
            try:
                yield
            finally:
                logging.disable(logging.NOTSET)


def simulate(seed, *, show=False):
    """Run a seed to its end; a failure says how to repeat it."""
    world = World(seed, show=show)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"{error!r}; to repeat it: python -m tests.simulation {seed}") from error
    return world


def _append(log, record, gap):
    log.append([(record.key, record.value, record.headers)], 0.0)
    log.entries[-1] = log.entries[-1]._replace(timestamp=record.timestamp)
    # Markers of other programs' transactions, and what they aborted.
    log.end += gap


class _NoTopicWatch:
    """Topics keep their identity here."""

    @classmethod
    def of(cls, *_):
        return cls()

    def start(self):
        pass

    def stop(self):
        pass

    def wait(self, *_):
        pass

    def explained(self, error):
        return error


class _NoPages:
    """A worker's pages that nothing asks for."""

    def __init__(self, *_):
        """It binds no port."""

    async def start(self, *_):
        """Do nothing."""

    async def stop(self):
        """Do nothing."""


async def _no_report(*_):
    """Report nothing of a worker's progress."""
