"""A processor with a delivery and tasks that write down their calls."""

import queue
import threading
import time

from faust.types import TP
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Message, Outputs, Record
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.commits import Commits
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.transport.chunk import Chunk, Membership

P0, P1 = TP("in", 0), TP("in", 1)
MEMBER = Membership(1, "m", frozenset((P0, P1)))
DESTINATIONS = {"assignments": "answers", "cluster_events": "events", "dead_letters": "dead"}
DESTINATIONS |= {kind: kind for kind in ("clusters", "snapshots")}


class Diary:
    """A delivery that writes down what happens; `gate` holds a commit back."""

    def __init__(self, atomic=True):
        self.atomic, self.size = atomic, 0
        self.lines, self.gate, self.failure = [], threading.Event(), None
        self.gate.set()
        self.committing = threading.Event()

    def start(self):
        pass

    def bind(self, membership):
        self.lines.append(("bind", membership.generation))

    def send(self, batch):
        assert not self.committing.is_set()
        self.lines.append((batch.topic, batch.partition, [message.value for message in batch.messages]))
        self.size += batch.size

    def settle(self):
        self.lines.append(("settle",))

    def commit(self, offsets, notes):
        self.committing.set()
        assert self.gate.wait(5)
        if self.failure:
            raise self.failure
        self.notes = notes
        self.lines.append(("commit", {tp.partition: offset for tp, offset in offsets.items()}))
        self.size = 0
        self.committing.clear()

    def abort(self):
        self.lines.append(("abort",))


class Echo:
    """A task that answers every record with its offset, without a value as a dead letter; `gate` holds it back."""

    def __init__(self):
        self.learned, self.models, self.parts, self.records = [], (), [], 0
        self.learning, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def messages(self, found, start, records):
        return records

    def process(self, records):
        self.learning.set()
        assert self.gate.wait(5)
        self.parts.append(len(records))
        self.records += len(records)
        self.learned += [record.offset for record in records]
        good, bad = ([r for r in records if (r.value is None) is dead] for dead in (False, True))
        return Outputs(*([Message(None, b"%d" % record.offset, []) for record in some] for some in (good, [], bad)))


class Writer:
    """A snapshot writer with one message whenever `due`."""

    def __init__(self):
        self.due = False

    def messages(self, task, position, committed, *, everything=False, go_on):
        if self.due or everything:
            yield Message(b"k", b"%d of %d%s" % (position, committed, b" all" if everything and go_on() else b""), [])


def chunk(tp, first, count, next_offset=None, waiting=0, value=b"", position=None):
    records = [Record(tp.topic, tp.partition, first + n, 0, None, value) for n in range(count)]
    columns = RecordColumns.of(records) if records else ()
    begins = first if position is None else position
    return Chunk(tp, columns, next_offset or first + count, position=begins, seek=1, generation=1, waiting=waiting)


class Bench:
    def __init__(self, interval=30.0, atomic=True, check_topics=lambda _: None):
        self.diary, self.done, self.failures = Diary(atomic), queue.SimpleQueue(), queue.SimpleQueue()
        self.processor = Processor(
            Commits(self.diary, DESTINATIONS, interval=interval, check_topics=check_topics),
            done=self.done.put,
            failed=self.failures.put,
            pauses=DeadLetterBreaker(DESTINATIONS["dead_letters"], window=10),
        )
        self.partitions = {tp: AssignedPartition(Echo(), Writer(), 0, 0) for tp in (P0, P1)}
        self.processor.start()

    def open(self):
        self.processor.open(MEMBER, self.partitions).result(5)

    def close(self, **how):
        self.processor.close(**how).result(5)

    def hold(self, *chunks):
        """Submit chunks of the first partition, and hold the first one back in its task, which is returned."""
        task = self.partitions[P0].task
        task.gate.clear()
        for each in chunks:
            self.processor.submit(each)
        assert task.learning.wait(5)
        return task

    def lines(self, kind):
        return [line for line in self.diary.lines if line[0] == kind]

    def learn_while_committing(self):
        """Hold the commit of a first record back until the next one is learned."""
        self.diary.gate.clear()
        self.processor.submit(chunk(P0, 0, 1))
        self.wait(self.diary.committing.is_set)
        self.processor.submit(chunk(P0, 1, 1))
        self.wait(lambda: self.partitions[P0].task.learned == [0, 1])

    def wait(self, condition):
        end = time.monotonic() + 5
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.002)
