"""Logs of partitions as a broker keeps them: transactions, their markers, and what readers see of both."""

from bisect import bisect_left
from typing import NamedTuple

from confluent_kafka import KafkaError

STAMP = 1_700_000_000_000


class RefusedError(Exception):
    """The broker's answer is an error."""

    def __init__(self, code):
        super().__init__(KafkaError(code).name())
        self.code = code


class Span:
    """What one transaction wrote to one partition; `committed` is None while it is open."""

    __slots__ = ("committed", "first")

    def __init__(self, first):
        self.first = first
        self.committed = None


class Entry(NamedTuple):
    """A record in a log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    span: Span | None


class Producer:
    """What a partition knows of a producer: its epoch, the number of its next record, and its open transaction."""

    __slots__ = ("epoch", "next", "span")

    def __init__(self, epoch):
        self.epoch, self.next, self.span = epoch, 0, Span(-1)
        self.span.committed = False


class Log:
    """The log of one partition."""

    def __init__(self):
        self.start = self.end = 0
        self.entries = []
        self._offsets = []
        self._producers = {}

    def append(self, messages, now, *, pid=-1, epoch=0, number=0, transactional=False):
        """Append messages (key, value, headers); return whether a transaction of the producer begins here.

        A batch that was appended before, which its number shows, is taken without effect.
        """
        span, begins = None, False
        if pid >= 0:
            producer = self._producers.setdefault(pid, Producer(epoch))
            if epoch < producer.epoch:
                raise RefusedError(KafkaError.INVALID_PRODUCER_EPOCH)
            if epoch > producer.epoch:
                producer.epoch, producer.next = epoch, 0
            if number < producer.next:
                return False
            if number > producer.next:
                raise RefusedError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
            if transactional:
                if producer.span.committed is not None:
                    producer.span, begins = Span(self.end), True
                span = producer.span
        for key, value, headers in messages:
            self.entries.append(Entry(self.end, STAMP + int(now * 1000), key, value, tuple(headers), span))
            self._offsets.append(self.end)
            self.end += 1
            if pid >= 0:
                producer.next += 1
        return begins

    def knows(self, pid):
        """Return whether a transaction of a producer is open here."""
        producer = self._producers.get(pid)
        return producer is not None and producer.span.committed is None

    def mark(self, pid, epoch, *, committed):
        """Write the marker that ends a producer's transaction."""
        producer = self._producers.setdefault(pid, Producer(epoch))
        if epoch > producer.epoch:
            producer.epoch, producer.next = epoch, 0
        if producer.span.committed is None:
            producer.span.committed = committed
        self.end += 1

    @property
    def stable(self):
        """The last stable offset: readers of committed records see nothing at or behind it."""
        open_ = [producer.span.first for producer in self._producers.values() if producer.span.committed is None]
        return min(open_, default=self.end)

    def delete(self, below):
        """Delete the first records, as retention does."""
        below = min(below, self.end)
        if below > self.start:
            place = bisect_left(self._offsets, below)
            del self.entries[:place], self._offsets[:place]
            self.start = below

    def read(self, offset, most=1_000_000, *, stable=True):
        """Return the records from an offset on, if `stable` the committed ones, and the offset behind what was read."""
        if not self.start <= offset <= self.end:
            raise RefusedError(KafkaError.OFFSET_OUT_OF_RANGE)
        end = self.stable if stable else self.end
        found = []
        for entry in self.entries[bisect_left(self._offsets, offset) :]:
            if entry.offset >= end:
                break
            if len(found) == most:
                return found, entry.offset
            if not stable or entry.span is None or entry.span.committed:
                found.append(entry)
        return found, max(offset, end)

    def committed(self):
        """Return every committed record, those too that an open transaction before them hides."""
        return [entry for entry in self.entries if entry.span is None or entry.span.committed]
