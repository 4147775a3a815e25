"""What many workers write, made up: clusters of many streams, then assignments and cluster events at a steady rate.

The messages have the form of a worker's, in transactions as short as its own. A worker itself does not write as many on
a machine that a broker and a browser share.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any, TypedDict

import orjson
from confluent_kafka import Producer
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.producer import producer_settings
from resonance.pipeline.timestamps import canonical
from resonance.schemas.cloudevents import CloudEvents, Header, source_uri
from resonance.schemas.cluster import describe_cluster, describe_end

from tests.brokers import create_topic

PARTITIONS = 4
FEATURES = 16
KINDS = ("assignments", "clusters", "cluster_events", "drift_events", "alerts", "dead_letters", "names")
COMPACTED = ("clusters", "names")
COMMIT_SECONDS = 0.1
"""Of a transaction, as ``delivery.commit_interval`` has it."""
FIRST_SECONDS = 3_600
"""Age of the clusters that are there at the start."""
ASSIGNMENT = (
    b'{"id":"r%07d","source":{"topic":"features","partition":%d,"offset":%d},"stream":"%b","version":1,'
    b'"status":"assigned","cluster":"%b/1/%d","clusters":["%b/1/%d"],"score":0.9181663949532254,'
    b'"novel":%b,"path":[%d],"time":"%b"}'
)
"""An encoder would take too long for so many."""


class Change(TypedDict):
    """A new cluster, the time at which the commit of its event began, and the assignments written so far."""

    cluster: str
    commit: float
    written: int


class Writer:
    """Makes the messages of a deployment, and sends them.

    Parameters
    ----------
    name : str
        Of the deployment.
    streams, clusters : int
        Streams, and present clusters of each.
    producer : Producer
        Takes the messages.
    """

    def __init__(self, name: str, streams: int, clusters: int, producer: Producer) -> None:
        self._streams = [f"device-{i:05d}" for i in range(streams)]
        self._clusters = clusters
        self._producer = producer
        self._topics = topics_of(name)
        self._headers = {
            kind: CloudEvents(schema, source_uri(name, "features", 0))
            for kind, schema in (("clusters", "cluster"), ("cluster_events", "cluster_event"))
        }
        self._random = random.Random(1)

    def load(self) -> None:
        """Write the clusters that are there."""
        now = time.time() - FIRST_SECONDS
        for place in range(len(self._streams)):
            for number in range(self._clusters):
                self._present(place, self._event("emerged", place, number, now))
        self._producer.flush(120)

    def write(self, rate: float, events: float) -> Iterator[Change]:
        """Write at a steady rate for ever; yield each new cluster with the time at which its commit began.

        With each cluster that emerges the oldest of its stream vanishes.
        """
        self._producer.init_transactions(30)
        began, written, changes = time.monotonic(), 0, 0
        while True:
            time.sleep(COMMIT_SECONDS)
            self._producer.begin_transaction()
            passed, now = time.monotonic() - began, time.time()
            due = int(rate * passed)
            self._assign(range(written, due), canonical(int(1000 * now)).encode())
            written = due
            found = []
            while changes < events * passed:
                found.append(self._change(changes, now))
                changes += 1
            commit = time.time()
            self._producer.commit_transaction(30)
            yield from (Change({"cluster": name, "commit": commit, "written": written}) for name in found)

    def _assign(self, numbers: range, moment: bytes) -> None:
        """Assign records to the streams in turn, and within a stream to its clusters in turn."""
        for number in numbers:
            turn, place = divmod(number, len(self._streams))
            stream, cluster = self._streams[place].encode(), turn % self._clusters
            value = ASSIGNMENT % (
                *(number, place % PARTITIONS, number, stream, stream, cluster, stream, cluster),
                *(b"false" if number % 50 else b"true", cluster * 7, moment),
            )
            self._produce("assignments", place, stream, value, None)

    def _change(self, number: int, now: float) -> str:
        """Let a cluster emerge and another one vanish; return the new one."""
        place, turn = number % len(self._streams), number // len(self._streams)
        born = self._event("emerged", place, self._clusters + turn, now)
        gone = self._event("vanished", place, turn, now)
        for event in (born, gone):
            self._send("cluster_events", place, event, self._streams[place])
        self._present(place, born)
        self._send("clusters", place, describe_end(gone["before"][0], gone, None), gone["cluster"])
        return str(born["cluster"])

    def _present(self, place: int, event: Any) -> None:
        cluster = describe_cluster(event["after"][0], event, event["time"])
        self._send("clusters", place, cluster, cluster["id"])

    def _event(self, kind: str, place: int, number: int, now: float) -> Any:
        name = f"{self._streams[place]}/1/{number}"
        values = [self._random.random() for _ in range(2 * FEATURES)]
        snapshot = {
            "id": name,
            "size": self._random.randrange(20, 100_000),
            "centre": {f"f{i}": values[i] for i in range(FEATURES)},
            "spread": {f"f{i}": values[FEATURES + i] / 5 for i in range(FEATURES)},
            "nodes": 20,
        }
        return {
            "kind": kind,
            "stream": self._streams[place],
            "version": 1,
            "level": 1,
            "seq": number,
            "cluster": name,
            "before": [] if kind == "emerged" else [snapshot],
            "after": [snapshot] if kind == "emerged" else [],
            "reason": {"criterion": "size", "value": 19.0, "threshold": 15.0},
            "cause": {"id": None, "source": {"topic": "features", "partition": place % PARTITIONS, "offset": number}},
            "time": canonical(int(1000 * now)),
        }

    def _send(self, kind: str, place: int, value: Any, key: str) -> None:
        headers = self._headers[kind].headers(f"features-{place}-{value['seq']}", value["time"])
        self._produce(kind, place, key.encode(), orjson.dumps(value), headers)

    def _produce(self, kind: str, place: int, key: bytes, value: bytes, headers: list[Header] | None) -> None:
        while True:
            try:
                self._producer.produce(self._topics[kind], value, key, place % PARTITIONS, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.05)


def topics_of(name: str) -> dict[str, str]:
    """Return the output topics of a deployment by kind."""
    settings = Settings.of({"name": name, "input.topics": ["features"]})
    return {kind: settings.topic(kind) for kind in KINDS}


def make_topics(bootstrap: str, name: str) -> None:
    """Make the output topics of a deployment."""
    for kind, topic in topics_of(name).items():
        policy = {"cleanup_policy": "compact"} if kind in COMPACTED else {}
        create_topic(bootstrap, topic, partitions=PARTITIONS, exact=True, **policy)


def producer_of(bootstrap: str, **more: str) -> Producer:
    """Return a producer such as a worker has."""
    return Producer(
        producer_settings({"bootstrap.servers": bootstrap}) | {k.replace("_", "."): v for k, v in more.items()}
    )


if __name__ == "__main__":
    where, deployment, streams, clusters, rate, events = sys.argv[1:]
    writer = Writer(deployment, int(streams), int(clusters), producer_of(where, transactional_id=f"{deployment}-load"))
    for change in writer.write(float(rate), float(events)):
        print(json.dumps(change), flush=True)
