"""Stand-ins for the parts around the consumer's thread, all of which note what is called."""

import asyncio
import queue
import threading
import time
from contextlib import contextmanager

import numpy as np
from confluent_kafka import KafkaError, KafkaException
from faust.types import TP
from resonance.pipeline.kafka.intake import Event
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Record
from resonance.pipeline.worker.transport.client import ClientThread, TransportOptions
from resonance.pipeline.worker.transport.rebalance import Rebalances

from tests.group_metadata import group_metadata

P0, P1 = TP("in", 0), TP("in", 1)
NOWHERE = TP("", -1)
EOF = KafkaError._PARTITION_EOF


async def nothing(*_):
    pass


def options(**changes):
    own = {"before_revoke": nothing, "positions": lambda membership: {}, "failed": lambda error: None}
    client = {"bootstrap.servers": "kafka:9092", "client.id": "worker-1"}
    return TransportOptions(**{"memory": MemoryBudget(1024**3), "client": client, **own, **changes})


def columns(tp, offsets, value=b"v"):
    return RecordColumns.of([Record(tp.topic, tp.partition, offset, 1000 * offset, None, value) for offset in offsets])


def event(code, tp=NOWHERE, offset=-1):
    return Event(KafkaError(code), tp.topic, tp.partition, offset)


def offsets(chunk):
    return np.asarray(chunk.value.offsets).tolist() if chunk.value else []


def metadata(generation, member):
    return group_metadata("group", generation, member.decode())


class FakeConsumer:
    """A consumer of a group; what `answers` has for a method is returned, called or raised."""

    def __init__(self, **answers):
        self.calls, self.answers = [], answers

    def __getattr__(self, name):
        def call(*given, **named):
            self.calls.append((name, *given, *named.values()))
            answer = self.answers.get(name)
            if isinstance(answer, BaseException):
                raise answer
            return answer(*given, **named) if callable(answer) else answer

        return call

    @property
    def names(self):
        return [name for name, *_ in self.calls]


class FakeIntake:
    """An intake whose takes are scripted: each is what it returns, or a function that does."""

    def __init__(self, *takes):
        self.takes, self.polls, self.calls = list(takes), [], []

    def assign(self, positions):
        self.calls.append(("assign", dict(positions)))

    def poll(self, seconds=0.0):
        answer = self.polls.pop(0) if self.polls else None
        return answer() if callable(answer) else answer

    def take(self, seconds, most):
        self.calls.append(("take", most))
        answer = self.takes.pop(0) if self.takes else ([], [])
        return answer() if callable(answer) else answer

    def wake(self):
        self.calls.append(("wake",))

    def close(self):
        self.calls.append(("close",))


class FakeOwner:
    """Faust's side of the thread."""

    def __init__(self):
        self.chunks, self.errors, self.room = [], [], True

    def has_room(self):
        return self.room

    def hand_over(self, chunks):
        assert chunks
        self.chunks += chunks


class Member:
    """A thread in a group of a cluster, with its memberships and what it handed over."""

    ENOUGH = 30.0

    def __init__(self, loop, client, group, **changes):
        self.memberships, self.revoked, self.owner, self.before_revoke = queue.SimpleQueue(), [], FakeOwner(), None
        own = {"client": client, "group": group, "fetch_wait_ms": 50, "failed": self.owner.errors.append}
        self.options = options(**own, **changes)
        rebalances = Rebalances(lambda: loop, self.on_assigned, self.on_revoked, 20.0)
        self.thread = ClientThread(self.options, self.owner, rebalances)

    async def on_assigned(self, membership):
        self.memberships.put(membership)

    async def on_revoked(self, partitions, lost):
        self.revoked.append((partitions, lost))
        if self.before_revoke is not None:
            await asyncio.to_thread(self.before_revoke)

    def until(self, reached):
        end = time.monotonic() + self.ENOUGH
        while not reached():
            assert not self.owner.errors, self.owner.errors
            assert time.monotonic() < end
            time.sleep(0.005)


class Clock:
    """A clock that stands still unless somebody waits."""

    def __init__(self, now=1000.0):
        self.now = now

    def monotonic(self):
        return self.now

    time = monotonic


def client_thread(intake=None, consumer=None, **changes):
    """A thread that is not started, connected to stand-ins, with two partitions at 5 and 7."""
    owner, rebalances = FakeOwner(), Rebalances(lambda: None, nothing, nothing, 1.0)
    thread = ClientThread(options(failed=owner.errors.append, **changes), owner, rebalances)
    thread._topics = ["in"]
    thread._consumer, thread._intake = consumer or FakeConsumer(), intake or FakeIntake()
    thread._connect = lambda: None
    thread.owner = owner
    thread._rebalances.generation = 4
    thread.seek({P0: 5, P1: 7}, 4)
    thread.serve(0.0)
    thread._consumer.calls.clear()
    return thread


@contextmanager
def event_loop():
    """An event loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    running = threading.Thread(target=loop.run_forever, daemon=True)
    running.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        running.join(10)
        loop.close()


async def _cancel_others():
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def refusal(code):
    return KafkaException(KafkaError(code))


def ended(thread):
    """Let the thread run, to its end; return the error."""
    thread.leaving.wait = lambda seconds: None
    thread.run()
    return thread.owner.errors[0] if thread.owner.errors else None
