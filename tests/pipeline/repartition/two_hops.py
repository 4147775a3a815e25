"""Both hops in a few lines: the routes are lists, and workers come and go."""

import random
from collections import defaultdict

import orjson
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task

from tests.pipeline import streams
from tests.pipeline.streams import STAMP, Held, points, value_of

ROUTES = "resonance.routes"
KEYED_ROUTES = 4
"""Partitions of the routes of a keyed hierarchy."""


def settings(stream="topic", **changes):
    return streams.settings(stream=stream, **changes)


def inputs(count, partitions=3, topics=(streams.TOPIC,), seed=0):
    """Logs of input topics: records of a few countries, with keys and headers of their own."""
    logs = defaultdict(list)
    for i, row in enumerate(points(count, seed).tolist()):
        at = (topics[i % len(topics)], i * 7 % partitions)
        value = value_of(row, id=f"r{i}", country=("DE", "FR", "IT")[i % 5 % 3], n=i % 2)
        headers = (("traceparent", b"00-%d" % i),) if i % 3 == 0 else ()
        logs[at].append(Record(*at, 2 * len(logs[at]), STAMP + 1_000 * i, b"k%d" % (i % 4), value, headers))
    return dict(logs)


class Hops:
    """The tasks of both hops, the routes between them and what they said; a seed decides what `run` processes when."""

    def __init__(self, given, routes=2, logs=(), workers=1, seed=0):
        self.given, self.count, self.workers = given, routes, workers
        self.held = {}
        self.logs = {(given.input.topics[0], number): list(log) for number, log in enumerate(logs)}
        self.first = Outputs()
        self.second = defaultdict(Outputs)
        self.random = random.Random(seed)

    @property
    def routes(self):
        return {partition: log for (topic, partition), log in self.logs.items() if topic == ROUTES}

    @property
    def routed(self):
        return [record for log in self.routes.values() for record in log]

    @property
    def outputs(self):
        whole = Outputs()
        for part in (self.first, *self.second.values()):
            whole.add(part)
        return whole

    def make(self, topic, partition):
        return make_task(self.given, topic, partition, TaskContext(routes=self.count))

    def task(self, topic, partition):
        if (topic, partition) not in self.held:
            self.held[topic, partition] = Held(self.make(topic, partition))
        return self.held[topic, partition].task

    def send(self, records):
        """Send records of one partition on."""
        outputs = self.task(records[0].topic, records[0].partition).process(records)
        self.first.add(outputs)
        for message in outputs.routes:
            # Every tenth offset is a marker's.
            log = self.logs.setdefault((ROUTES, message.partition), [])
            offset = len(log) + len(log) // 10
            log.append(Record(ROUTES, message.partition, offset, STAMP, message.key, message.value, message.headers))
        return outputs

    def step(self, at, size):
        """Process some records that wait."""
        self.task(*at)
        held = self.held[at]
        part = self.logs[at][held.read : held.read + size]
        held.read += len(part)
        if at[0] == ROUTES:
            self.second[at[1]].add(held.task.process(part))
        else:
            self.send(part)

    def waits(self, at):
        return not self.held.get(at) or self.held[at].read < len(self.logs[at])

    def learn(self, size=None):
        """Learn what was routed and is not learned yet, in batches of a size."""
        for partition, log in self.routes.items():
            while self.waits((ROUTES, partition)):
                self.step((ROUTES, partition), size or len(log))

    def run(self, sizes=(1, 7, 300), *, moving=False):
        """Process everything: each worker takes some records of one of its partitions in turn.

        With `moving` another worker takes a partition over now and then.
        """
        places = [*self.logs, *((ROUTES, number) for number in range(self.count))]
        for at in places:
            self.logs.setdefault(at, [])
            self.task(*at)
        while any(map(self.waits, places)):
            for worker in range(self.workers):
                own = [at for at in places[worker :: self.workers] if self.waits(at)]
                if own:
                    at = self.random.choice(own)
                    self.step(at, self.random.choice(sizes))
                    if (due := self.held[at].task.models.pending()) and self.random.random() < 0.5:
                        self.write(at, due)
            if moving and self.random.random() < 0.1:
                at = self.random.choice(places)
                if self.random.random() < 0.5:
                    # The first one had the time to stop cleanly.
                    self.write(at, self.held[at].task.models.pending(everything=True))
                self.held[at].restore(self.make(*at), self.logs[at])
        return self.outputs

    def write(self, at, streams):
        held = self.held[at]
        held.write(streams, self.logs[at][held.read - 1].offset + 1 if held.read else 0)


def keyed_hops(given, logs, workers=1, seed=0):
    return Hops(given, KEYED_ROUTES, logs, workers, seed)


def without_routes_offset(headers):
    """Return the headers of an output without the one that depends on how its route was interleaved with others."""
    return [header for header in headers if not header[0].endswith(".routes_offset")]


def once(messages):
    """Return messages without repeats, which are the same but for the offset of their route."""
    found = {repr(m._replace(headers=without_routes_offset(m.headers))): m for m in reversed(messages)}
    return list(found.values())[::-1]


def by_record(messages):
    """Return answers by the records that they answer."""
    found = {}
    for message in messages:
        source = orjson.loads(message.value)["source"]
        place = (source["topic"], source["partition"], source["offset"])
        assert place not in found, "a record is answered once"
        found[place] = (message.key, message.value, without_routes_offset(message.headers))
    return found


def by_id(messages):
    """Return events by their ids, without the numbers that depend on where they were learned."""
    found = {}
    for message in messages:
        name = dict(message.headers)["ce_id"] or b""
        payload = orjson.loads(message.value)
        del payload["seq"]
        payload.pop("subtree", None)
        assert name not in found, "an event is said once"
        found[name] = (message.key, payload, without_routes_offset(message.headers))
    return found


def interleaved(logs, size=17):
    """Batches of the logs, by turns."""
    longest = max(map(len, logs.values()))
    return [log[start : start + size] for start in range(0, longest, size) for log in logs.values() if log[start:]]
