"""Topics of a test: made under names that nothing else has, filled, and read to their end."""

import itertools
import time
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers.errors import NoBrokerError

SILENT = {"log_level": 0}
"""For clients that ask whether a broker is there: a refused connection is an answer, not news."""

SETTLING_SECONDS = 2.0
"""How long a transaction that is committed may take to end in every partition; another one is open."""

_run = uuid.uuid4().hex[:8]
_number = itertools.count(1)


def topic_name(prefix):
    """A name that no other test and no earlier run on the same broker has."""
    return f"{prefix}-{_run}-{next(_number)}"


def answers(bootstrap, timeout, **settings):
    """Whether a broker answers at `bootstrap` within `timeout` seconds, to a client with these settings."""
    client = AdminClient({**settings, "bootstrap.servers": bootstrap, **SILENT})
    end = time.monotonic() + timeout
    while (left := end - time.monotonic()) > 0:
        try:
            if client.list_topics(timeout=min(left, 2.0)).brokers:
                return True
        except KafkaException:
            time.sleep(0.05)
    return False


def create_topic(bootstrap, name="test", *, partitions=4, exact=False, client=None, **config):
    """Create a topic, named `name` if `exact`, and return its name once every partition has a leader."""
    topic = name if exact else topic_name(name)
    settings = {key.replace("_", "."): str(value) for key, value in config.items()}
    admin = AdminClient({**(client or {}), "bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(15)
    end = time.monotonic() + 15
    while time.monotonic() < end:
        found = admin.list_topics(topic, timeout=5).topics[topic]
        if len(found.partitions) == partitions and all(p.leader >= 0 for p in found.partitions.values()):
            return topic
        time.sleep(0.02)
    raise NoBrokerError(f"{bootstrap}: topic {topic} has no leaders after 15 s")


def produce(bootstrap, topic, values, *, headers=(), **config):
    """Append (partition, key, value) records in order and wait until the broker has them all."""
    errors = []

    def delivered(error, message):
        if error is not None:
            errors.append(error)

    settings = {key.replace("_", "."): value for key, value in config.items()}
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "batch.size": 1_000_000} | settings
    )
    for partition, key, value in values:
        while True:
            try:
                producer.produce(
                    topic, value=value, key=key, partition=partition, headers=list(headers), on_delivery=delivered
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(60) or errors:
        raise NoBrokerError(f"{topic}: not every record was delivered: {errors[:1]}")


def read_topic(bootstrap, topic, *, committed=True, start=None, timeout=60, client=None):
    """Every record of a topic up to its present end, by partition and offset."""
    settings = {**(client or {}), "bootstrap.servers": bootstrap, "group.id": f"{topic}-reader"}
    # A commit is answered before the broker has ended the transaction in every partition.
    ends = _ends({**settings, **SILENT, "isolation.level": "read_uncommitted"}, topic)
    consumer = Consumer(
        {
            **settings,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        partitions = sorted(ends)
        first = start or {}
        open_ = set(partitions)
        reached = {}
        settled = {}
        consumer.assign([TopicPartition(topic, p, first.get(p, 0)) for p in partitions])
        found = {p: [] for p in partitions}
        end = time.monotonic() + timeout
        # The end of a partition is an event of its own: offsets have gaps, so no record can be known to be the last.
        while open_:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    found[message.partition()].append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached[message.partition()] = message.offset()
                    settled.setdefault(message.partition(), time.monotonic() + SETTLING_SECONDS)
                else:
                    raise KafkaException(error)
            open_ -= {p for p, at in reached.items() if at >= ends[p] or time.monotonic() > settled[p]}
            if time.monotonic() > end:
                raise NoBrokerError(f"{topic}: partitions {sorted(open_)} not read to the end in {timeout:g} s")
        return [message for p in partitions for message in found[p]]
    finally:
        consumer.close()


def _ends(settings, topic):
    consumer, end = Consumer(dict(settings)), time.monotonic() + 15
    try:
        while True:
            try:
                partitions = consumer.list_topics(topic, timeout=15).topics[topic].partitions
                return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=15)[1] for p in partitions}
            except KafkaException as error:
                # A worker has made the topic just now.
                if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > end:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()
