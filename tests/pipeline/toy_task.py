"""A task that is quick to understand: a stream for each key, its model a checksum chain over what it learned."""

import zlib

import orjson
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import StreamSnapshot


class ToyModels(dict):
    """The models by stream; a snapshot is due after `every` records."""

    record_after = 0
    has_expired = False
    first_version = 1

    def __init__(self, every, size):
        super().__init__()
        self.every, self.size = every, size
        self.since = {}

    @property
    def recovery_offset(self):
        return min((first for first, _ in self.since.values()), default=None)

    def pending(self, *, everything=False):
        dirty = sorted(self.since, key=lambda stream: self.since[stream][0])
        return [stream for stream in dirty if everything or self.since[stream][1] >= self.every]

    def changes(self, streams):
        for stream in streams:
            yield stream, self.snapshot(stream)

    def snapshot(self, stream):
        self.since.pop(stream, None)
        return self._state(stream)

    def states(self):
        return [self._state(stream) for stream in self]

    def _state(self, stream):
        body = orjson.dumps(self[stream]) + b" " * self.size
        return StreamSnapshot(stream, self[stream]["next"], {"version": 1}, body)


class ToyTask:
    """Keeps the interface of a partition task; every value in order changes every later answer."""

    def __init__(self, topic="in", partition=0, *, every=10, size=0):
        self.topic, self.partition = topic, partition
        self.models = ToyModels(every, size)
        self.answers = {}

    def _stream(self, record):
        return f"p{record.partition}:{(record.key or b'').decode()}"

    def messages(self, found, start, records):
        return records

    def process(self, records):
        return [self._learn(record) for record in records]

    def catch_up(self, records):
        self.process(records)

    def _learn(self, record):
        stream = self._stream(record)
        model = self.models.setdefault(stream, {"next": 0, "crc": 0, "count": 0, "version": 1})
        if record.offset < model["next"]:
            return None
        model["crc"] = zlib.crc32(record.value or b"", model["crc"])
        model["count"] += 1
        model["next"] = record.offset + 1
        first, count = self.models.since.get(stream, (record.offset, 0))
        self.models.since[stream] = (first, count + 1)
        return (stream, record.offset, model["crc"], model["count"])

    def restore(self, snapshot):
        if snapshot.header != {"version": 1}:
            raise MismatchError(f"{snapshot.stream}: header {snapshot.header}")
        self.models[snapshot.stream] = orjson.loads(snapshot.body)

    def partition_state(self):
        return b"state of %d" % self.partition

    def restore_partition(self, state):
        assert state == b"state of %d" % self.partition
