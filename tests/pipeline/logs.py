"""A log in memory behind the reading part of a `LogReader`."""

from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import Record


class MemoryReader:
    """Reads partitions that tests fill; `firsts` says where a log begins whose first records are deleted."""

    def __init__(self):
        self.logs = {}
        self.firsts = {}
        self.seen = []

    def append(self, at, message, timestamp=0, gap=0):
        """Append a message behind a gap."""
        log = self.logs.setdefault(at, [])
        offset = (log[-1].offset + 1 if log else 0) + gap
        log.append(Record(*at, offset, timestamp, message.key, message.value, message.headers))
        return log[-1]

    def has(self, at):
        return at in self.logs

    def bounds(self, partitions):
        # A marker stands behind the last record.
        return {
            at: (self.firsts.get(at, 0), self.logs[at][-1].offset + 2 if self.logs.get(at) else 0) for at in partitions
        }

    def high_watermarks(self, partitions):
        return {at: end for at, (_, end) in self.bounds(partitions).items()}

    def offsets_at(self, partitions, moment):
        return {
            at: next((record.offset for record in self.logs[at] if record.timestamp >= moment), NO_OFFSET)
            for at in partitions
        }

    def read(self, ranges, batch=5_000):
        for at, (first, end) in ranges.items():
            assert first >= self.firsts.get(at, 0), "deleted"
            found = [record for record in self.logs[at] if first <= record.offset < end]
            for start in range(0, len(found), batch):
                self.seen += found[start : start + batch]
                yield at, found[start : start + batch]
