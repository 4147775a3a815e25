"""librdkafka's clients as the product uses them, over the simulated network."""

import logging
import struct
from collections import deque

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition

from tests import group_metadata as by_hand
from tests.simulation.broker import OFFSETS, Broker
from tests.simulation.group import Who
from tests.simulation.logs import RefusedError
from tests.simulation.network import BrokenError, Network

LINGER = 0.02
BACKOFF = 0.05
ANSWER_SECONDS = 3.0
"""How long a client waits for an answer before it takes the connection for broken."""

WAITED_FOR = frozenset(
    {
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Answers after which librdkafka sends the same request again."""

FENCED = frozenset({KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


def exception(code, text="", **how):
    return KafkaException(KafkaError(code, text or KafkaError(code).str(), **how))


def group_metadata(group, who):
    """Return the metadata of a simulated member."""
    return by_hand.group_metadata(group, who.generation, who.member, who.instance)


def who_is(metadata):
    """Return the member that metadata describe."""
    (generation,) = struct.unpack_from("<i", metadata, 7)
    _, member, *instance = metadata[11:].split(b"\0")
    return Who(generation, member.decode(), instance[1].decode() if len(instance) > 1 else "")


class Producer:
    """confluent-kafka's producer: batches in the background, and calls that repeat a request until it is answered."""

    broker: Broker
    network: Network

    def __init__(self, settings, logger=None):
        self._sim = self.network.sim
        self._process = self._sim.current.process
        self._name = settings.get("transactional.id", "")
        self._transaction_seconds = settings.get("transaction.timeout.ms", 0) / 1000
        self._message_seconds = settings.get("message.timeout.ms", 300_000) / 1000
        self._report = settings.get("on_delivery", lambda *_: None)
        self._logger = logger
        self._pid, self._epoch = -1, 0
        self._queues = {}
        self._numbers = {}
        self._sizes = {}
        self._sending = set()
        self._added = set()
        self._reports = []
        self._waiting = []
        self._fatal = None
        self._abortable = None
        self._pumping = self._closed = False

    # Messages.

    def produce(self, topic, value, key, partition, _callback=None, _on_delivery=None, _timestamp=0, headers=None):
        self._raise_fatal()
        if self._abortable is not None:
            raise exception(KafkaError._STATE)
        queue = self._queues.setdefault((topic, partition), deque())
        queue.append((self._sim.now, (key, value, headers or ())))
        if not self._pumping:
            self._pumping = True
            self._sim.at(LINGER, self._pump)

    def poll(self, _=0.0):
        reports, self._reports = self._reports, []
        for error, message in reports:
            self._report(error, message)
        return 0

    def __len__(self):
        return sum(map(len, self._queues.values()))

    def flush(self, seconds):
        self._pump()
        self._sim.wait_for(lambda: not len(self) or bool(self._fatal or self._abortable), self._waiting, seconds)
        self.poll()
        return len(self)

    def _pump(self):
        """Send what waits, one batch of each partition at a time."""
        self._pumping = False
        if self._process.dead or self._closed or self._fatal or self._abortable:
            return
        if not self._name and self._pid < 0:
            self._pid = self.broker.new_producer()
        for at, queue in self._queues.items():
            if queue and at not in self._sending:
                self._sending.add(at)
                if self._name and at not in self._added:
                    self._add(at)
                else:
                    self._batch(at, queue)

    def _add(self, at):
        name, pid, epoch = self._name, self._pid, self._epoch

        def done(_, error):
            if error is None:
                self._added.add(at)
            self._sent(at, error)

        self.network.send(self._process, "add", lambda: self.broker.add(name, pid, epoch, [at]), done)

    def _batch(self, at, queue):
        if self._sim.now - queue[0][0] > self._message_seconds:
            # librdkafka goes on with a new producer id, because the number of what is given up may be stored or not.
            self._reports += [(KafkaError(KafkaError._MSG_TIMED_OUT), _Failed(at)) for _ in queue]
            queue.clear()
            self._sizes.pop(at, None)
            self._pid, self._numbers = -1, {}
            self._sent(at, None)
            return
        # A batch that is repeated is the same.
        size = self._sizes.setdefault(at, min(len(queue), self._sim.random.randint(1, 40)))
        batch = [queue[i][1] for i in range(size)]
        name, pid, epoch, number = self._name, self._pid, self._epoch, self._numbers.get(at, 0)

        def done(_, error):
            if error is None and queue is self._queues.get(at) and (pid, epoch) == (self._pid, self._epoch):
                for _ in range(size):
                    queue.popleft()
                self._numbers[at] = number + size
                del self._sizes[at]
            self._sent(at, error)

        self.network.send(
            self._process, "produce", lambda: self.broker.produce(at, batch, name, pid, epoch, number), done
        )

    def _sent(self, at, error):
        delay = 0.0
        if isinstance(error, BrokenError):
            self._lost()
            delay = BACKOFF
        elif isinstance(error, RefusedError) and error.code in WAITED_FOR:
            delay = BACKOFF / 2
        elif isinstance(error, RefusedError):
            problem = KafkaError(error.code, error.args[0], txn_requires_abort=True)
            self._abortable = self._abortable or problem

        def go_on():
            self._sending.discard(at)
            self._pump()
            self._sim.wake_all(self._waiting)

        self._sim.at(delay, go_on)

    def _lost(self):
        """Report a broken connection where librdkafka does: in its log."""
        self._logger.log(
            logging.INFO, "%s: %s: %s", "FAIL", "producer", "broker: Disconnected (after 50ms in state UP)"
        )

    # Transactions.

    def _raise_fatal(self):
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _repeat(self, kind, request, seconds):
        """Send a request until it is answered, for some seconds at most."""
        end = self._sim.now + seconds
        while True:
            try:
                return self.network.call(self._process, kind, request, min(ANSWER_SECONDS, end - self._sim.now))
            except BrokenError:
                self._lost()
            except RefusedError as refused:
                if refused.code in FENCED:
                    self._fatal = KafkaError(KafkaError._FENCED, refused.args[0], fatal=True)
                    self._raise_fatal()
                if refused.code not in WAITED_FOR:
                    raise
            if self._sim.now + BACKOFF >= end:
                raise exception(KafkaError._TIMED_OUT, f"{kind}: no answer in time", retriable=True)
            self._sim.wait(BACKOFF)

    def init_transactions(self, seconds):
        request = lambda: self.broker.init_producer(self._name, self._transaction_seconds)  # noqa: E731
        self._pid, self._epoch = self._repeat("init", request, seconds)

    def begin_transaction(self):
        self._raise_fatal()
        self._added, self._numbers = set(), self._numbers
        self._abortable = None

    def send_offsets_to_transaction(self, places, member, seconds):
        self._raise_fatal()
        if self._abortable is not None:
            raise KafkaException(self._abortable)
        if self.network.hangs():
            self.network.note(self._process.name, "a call hangs")
            self._lost()
            self._sim.wait()
        end = self._sim.now + seconds
        name, pid, epoch = self._name, self._pid, self._epoch
        offsets = {(place.topic, place.partition): (place.offset, place.metadata) for place in places}
        who = who_is(member)
        try:
            self._repeat("add offsets", lambda: self.broker.add(name, pid, epoch, [OFFSETS]), seconds)
            self._added.add(OFFSETS)
            request = lambda: self.broker.add_offsets(name, pid, epoch, who, offsets)  # noqa: E731
            self._repeat("offsets", request, end - self._sim.now)
        except RefusedError as refused:
            raise exception(refused.code, refused.args[0], txn_requires_abort=True) from refused
        except KafkaException as error:
            if error.args[0].retriable() and self._sim.random.random() < 0.5:
                raise exception(error.args[0].code(), error.args[0].str(), txn_requires_abort=True) from error
            raise

    def commit_transaction(self, seconds):
        end = self._sim.now + seconds
        if self.flush(seconds) and not (self._fatal or self._abortable):
            raise exception(KafkaError._TIMED_OUT, "messages still wait", retriable=True)
        self._raise_fatal()
        if self._abortable is not None:
            raise KafkaException(self._abortable)
        self._end(end, committed=True)

    def abort_transaction(self, seconds):
        self._raise_fatal()
        self._queues.clear()
        self._sizes.clear()
        self._end(self._sim.now + seconds, committed=False)

    def _end(self, end, *, committed):
        if not self._added:
            return
        name, pid, epoch = self._name, self._pid, self._epoch
        try:
            request = lambda: self.broker.end(name, pid, epoch, committed=committed)  # noqa: E731
            self._repeat("end", request, max(end - self._sim.now, BACKOFF))
        except RefusedError as refused:
            self._fatal = KafkaError(refused.code, refused.args[0], fatal=True)
            raise KafkaException(self._fatal) from refused
        self._added = set()

    def close(self):
        self._closed = True


class _Failed:
    """A message of which a delivery report says that it was not stored."""

    def __init__(self, at):
        self.topic, self.partition = (lambda: at[0]), (lambda: at[1])


class Message:
    """A record, or the error of a partition in place of one."""

    __slots__ = ("_at", "_entry", "_error", "_offset")

    def __init__(self, at, offset, entry=None, code=None):
        self._at, self._offset, self._entry = at, offset, entry
        self._error = None if code is None else KafkaError(code)

    def topic(self):
        return self._at[0]

    def partition(self):
        return self._at[1]

    def offset(self):
        return self._offset

    def error(self):
        return self._error

    def timestamp(self):
        return 1, self._entry.timestamp

    def key(self):
        return self._entry.key

    def value(self):
        return self._entry.value

    def headers(self):
        return list(self._entry.headers) or None


class Consumer:
    """confluent-kafka's consumer, of assigned partitions only: it joins no group."""

    broker: Broker
    network: Network

    def __init__(self, settings):
        self._sim = self.network.sim
        self._process = self._sim.current.process
        self._stable = settings.get("isolation.level") == "read_committed"
        self._positions = {}
        self._reported = {}

    def _ask(self, request, seconds):
        try:
            return self.network.call(self._process, "lookup", request, seconds)
        except BrokenError:
            raise exception(KafkaError._TIMED_OUT) from None
        except RefusedError as refused:
            self._sim.wait(BACKOFF)
            raise exception(refused.code) from refused

    def committed(self, places, timeout):
        wanted = [(place.topic, place.partition) for place in places]
        found = self._ask(lambda: self.broker.committed(wanted, stable=self._stable), timeout)
        return [TopicPartition(*at, *(found[at] or (-1001, ""))) for at in wanted]

    def offsets_for_times(self, places, timeout):
        """Return the bounds of logs, which stand for times before and behind all others."""
        answer = []
        for place in places:
            at = place.topic, place.partition
            bounds = self._ask(lambda at=at: self.broker.bounds(at, stable=self._stable), timeout)
            answer.append(TopicPartition(*at, bounds[place.offset == OFFSET_END]))
        return answer

    def assign(self, places):
        self._positions = {(place.topic, place.partition): place.offset for place in places}
        self._reported = {}

    def pause(self, places):
        for place in places:
            del self._positions[place.topic, place.partition]

    def resume(self, places):
        """Nothing was paused before its assignment."""

    def unassign(self):
        self._positions = {}

    def poll(self, timeout):
        """No message comes without an assignment."""

    def consume(self, most, timeout):
        positions = dict(self._positions)
        try:
            answer = self.network.call(self._process, "fetch", self._fetch(positions, most), 1.0)
        except BrokenError:
            self._sim.wait(timeout)
            return []
        found = []
        for at, got in answer.items():
            if isinstance(got, RefusedError):
                found.append(Message(at, positions[at], code=KafkaError._AUTO_OFFSET_RESET))
                continue
            entries, after, end = got
            found += [Message(at, entry.offset, entry) for entry in entries]
            self._positions[at] = after
            if after >= end and self._reported.get(at) != after:
                self._reported[at] = after
                found.append(Message(at, after, code=KafkaError._PARTITION_EOF))
        if not found:
            self._sim.wait(timeout)
        return found

    def _fetch(self, positions, most):
        return lambda: self.broker.fetch(positions, most, stable=self._stable)

    def close(self):
        """Nothing is left open."""
