"""A broker: topics, the coordinator of transactions, and the one of the group.

Requests are methods; each returns the answer or raises `RefusedError`. The rules are those of Kafka 3.9 for clients of
the first version of the transaction protocol, as librdkafka does. Only `init_producer` raises an epoch, so that a
late request of the same epoch may touch a later transaction. A record or offset is taken only in a transaction that
the coordinator knows to be open and to contain its partition.
"""

from collections import defaultdict
from itertools import count

from confluent_kafka import KafkaError

from tests.simulation.logs import Log, RefusedError

OFFSETS = ("__consumer_offsets", 0)
"""Stands for the group among the partitions of a transaction."""

At = tuple[str, int]


class Transaction:
    """The state of one transactional id."""

    def __init__(self, pid, timeout):
        self.pid, self.timeout = pid, timeout
        self.epoch = 0
        # "empty", "open", "committing", "aborting", "committed" or "aborted".
        self.state = "empty"
        self.partitions = {}
        self.begun = 0
        self.unmarked = 0

    @property
    def ending(self):
        """Whether markers are still to be written."""
        return self.state in ("committing", "aborting")


class Broker:
    """A cluster behind one address; `committed` is called with offsets once all that belongs to them is visible."""

    def __init__(self, sim, group, committed):
        self.sim, self.group = sim, group
        self.logs = defaultdict(Log)
        self.slow_markers = 0.02
        # Until when each coordinator is moving, and the answer meanwhile.
        self.moving = {}
        self._pids = count(1)
        self._ids = {}
        self._committed = committed

    @property
    def settled(self):
        """Whether every transaction that was decided has ended in all of its partitions."""
        return not any(transaction.ending for transaction in self._ids.values())

    def _coordinator(self, which):
        until, code = self.moving.get(which, (0.0, 0))
        if self.sim.now < until:
            raise RefusedError(code)

    def _owned(self, name, pid, epoch):
        self._coordinator("transactions")
        transaction = self._ids.get(name)
        if transaction is None or transaction.pid != pid:
            raise RefusedError(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if transaction.epoch != epoch:
            raise RefusedError(KafkaError.PRODUCER_FENCED)
        return transaction

    def forget(self):
        """Forget the transactional ids that have nothing open, as after transactional.id.expiration.ms."""
        self._ids = {name: it for name, it in self._ids.items() if it.ending or it.state == "open"}

    # Requests of producers.

    def new_producer(self):
        """Return the id of a producer without transactions."""
        return next(self._pids)

    def init_producer(self, name, timeout):
        """Fence a transactional id's producers, end what they left open, and return the id and epoch of a new one."""
        self._coordinator("transactions")
        transaction = self._ids.get(name)
        if transaction is None:
            transaction = self._ids[name] = Transaction(next(self._pids), timeout)
        if transaction.state == "open":
            transaction.epoch += 1
            self._end(transaction, committed=False)
        if transaction.ending:
            raise RefusedError(KafkaError.CONCURRENT_TRANSACTIONS)
        transaction.epoch += 1
        transaction.state, transaction.timeout = "empty", timeout
        return transaction.pid, transaction.epoch

    def add(self, name, pid, epoch, partitions):
        """Add partitions to a transaction, which begins with the first one; `OFFSETS` stands for the group."""
        transaction = self._owned(name, pid, epoch)
        if transaction.ending:
            raise RefusedError(KafkaError.CONCURRENT_TRANSACTIONS)
        if transaction.state != "open":
            transaction.state = "open"
            transaction.begun = begun = transaction.begun + 1
            # The broker looks from time to time.
            late = self.sim.random.uniform(0.0, 2.0)
            self.sim.at(transaction.timeout + late, lambda: self._time_out(transaction, begun))
        transaction.partitions |= dict.fromkeys(partitions)

    def produce(self, at, messages, name, pid, epoch, number):
        """Append a batch, in the open transaction of `name` unless that is empty."""
        log = self.logs[at]
        if name and not log.knows(pid):
            self._verify(at, name, pid, epoch)
        log.append(messages, self.sim.now, pid=pid, epoch=epoch, number=number, transactional=bool(name))

    def _verify(self, at, name, pid, epoch):
        transaction = self._ids.get(name)
        if transaction is None or (transaction.pid, transaction.epoch) != (pid, epoch):
            raise RefusedError(KafkaError.INVALID_PRODUCER_EPOCH)
        if transaction.state != "open" or at not in transaction.partitions:
            raise RefusedError(KafkaError.INVALID_TXN_STATE)

    def add_offsets(self, name, pid, epoch, who, offsets):
        """Add offsets of the group to a transaction."""
        self._coordinator("group")
        self.group.check(who, transactional=True)
        self._verify(OFFSETS, name, pid, epoch)
        self.group.pending.setdefault(pid, {}).update(offsets)

    def end(self, name, pid, epoch, *, committed):
        """End a transaction; repeated after its end, it is answered as before."""
        transaction = self._owned(name, pid, epoch)
        if transaction.state == ("committed" if committed else "aborted"):
            return
        if transaction.state == ("committing" if committed else "aborting"):
            raise RefusedError(KafkaError.CONCURRENT_TRANSACTIONS)
        if transaction.state != "open":
            raise RefusedError(KafkaError.INVALID_TXN_STATE)
        self._end(transaction, committed=committed)

    def _time_out(self, transaction, begun):
        if transaction.state == "open" and transaction.begun == begun:
            transaction.epoch += 1
            self._end(transaction, committed=False)

    def _end(self, transaction, *, committed):
        """Decide the end of a transaction; each partition hears of it in its own time."""
        transaction.state = "committing" if committed else "aborting"
        partitions, transaction.partitions = list(transaction.partitions), {}
        transaction.unmarked = len(partitions)
        epoch, offsets = transaction.epoch, dict(self.group.pending.get(transaction.pid, {}))

        def mark(at):
            if at == OFFSETS:
                found = self.group.pending.pop(transaction.pid, {})
                if committed:
                    self.group.offsets |= found
            else:
                self.logs[at].mark(transaction.pid, epoch, committed=committed)
            transaction.unmarked -= 1
            if transaction.unmarked == 0:
                transaction.state = "committed" if committed else "aborted"
                self._committed(offsets if committed else {})

        for at in partitions:
            delay = self.sim.random.expovariate(1 / self.slow_markers)
            self.sim.at(delay, lambda at=at: mark(at))

    # Requests of readers and of the group's members.

    def fetch(self, wanted, most, *, stable=True):
        """Return the records of each partition with their next offset and their end, or the error.

        With `stable` only committed ones.
        """
        answer = {}
        for at, offset in wanted.items():
            try:
                log = self.logs[at]
                answer[at] = (*log.read(offset, most, stable=stable), log.stable if stable else log.end)
            except RefusedError as refused:
                answer[at] = refused
        return answer

    def bounds(self, at, *, stable):
        """Return where a log begins, and where it, or its committed part, ends."""
        log = self.logs[at]
        return log.start, log.stable if stable else log.end

    def committed(self, partitions, *, stable):
        """Return the offsets of the group and their notes; if `stable`, refused while a transaction may change them."""
        self._coordinator("group")
        if stable and any(at in pending for pending in self.group.pending.values() for at in partitions):
            raise RefusedError(KafkaError.UNSTABLE_OFFSET_COMMIT)
        return {at: self.group.offsets.get(at) for at in partitions}

    def commit(self, who, offsets):
        """Commit offsets without a transaction."""
        self._coordinator("group")
        self.group.check(who, transactional=False)
        self.group.offsets |= offsets
        self._committed(offsets)

    def ask_group(self, call, *args):
        """Pass a request of a member on to the group."""
        self._coordinator("group")
        return call(*args)
