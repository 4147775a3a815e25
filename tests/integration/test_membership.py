"""What the transport relies on in librdkafka's group membership: eager rebalances, of dynamic and of static members."""

import json
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from faust.types import TP
from resonance.pipeline.worker.transport.group_metadata import membership_of

from tests.brokers import create_topic, topic_name

pytestmark = [pytest.mark.broker, pytest.mark.timeout(60)]

EAGER = {
    "partition.assignment.strategy": "roundrobin",
    "enable.auto.commit": False,
    "heartbeat.interval.ms": 250,
    # Far longer than any of these tests.
    "session.timeout.ms": 45_000,
}
AT_ONCE = 5.0
"""Seconds: heartbeats, and not the session's end."""

KINDS = pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])


class Group:
    """Members of a group that read a topic of four partitions, all of them polled by one thread."""

    def __init__(self, broker):
        self.broker = broker
        self.topic, self.name = create_topic(broker, "shared", partitions=4), topic_name("group")
        self.members = []

    def settings(self, name, *, static):
        own = {"group.instance.id": name} if static else {}
        return {"bootstrap.servers": self.broker, "group.id": self.name, **EAGER, **own}

    def join(self, name, *, static):
        member = Member(self.settings(name, static=static), self.topic)
        self.members.append(member)
        return member

    def until(self, reached, seconds=20.0):
        """Poll all members until something is so; return how long that took."""
        began = time.monotonic()
        while not reached():
            for member in self.members:
                member.consumer.poll(0.02)
            assert time.monotonic() - began < seconds
        return time.monotonic() - began

    def committed(self):
        reader = Consumer(self.settings("reader", static=False))
        offsets = [place.offset for place in reader.committed([TopicPartition(self.topic, at) for at in range(4)], 10)]
        reader.close()
        return offsets


class Member:
    """A consumer, with its memberships as they were when partitions were assigned."""

    def __init__(self, settings, topic):
        self.memberships, self.revoked = [], lambda: None
        self.consumer = Consumer(settings)
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=lambda *_: self.revoked())

    def _on_assign(self, consumer, places):
        metadata = consumer.consumer_group_metadata()
        self.memberships.append(membership_of(metadata, (TP(each.topic, each.partition) for each in places)))

    @property
    def now(self):
        return membership_of(self.consumer.consumer_group_metadata(), ())

    @property
    def owned(self):
        return len(self.memberships[-1].partitions) if self.memberships else 0


@pytest.fixture
def group(broker):
    made = Group(broker)
    yield made
    for member in made.members:
        member.consumer.close()


class Transactions:
    """A producer whose transactions hold an offset of the group and nothing else."""

    def __init__(self, group):
        self.place = partial(TopicPartition, group.topic, 0)
        self.producer = Producer({"bootstrap.servers": group.broker, "transactional.id": topic_name("worker")})
        self.producer.init_transactions(20)

    def commit(self, offset, membership):
        self.producer.begin_transaction()
        self.producer.send_offsets_to_transaction([self.place(offset)], membership.metadata, 20)
        self.producer.commit_transaction(20)

    def refused(self, membership):
        """Return the name of the error with which an offset is refused."""
        with pytest.raises(KafkaException) as error:
            self.commit(99, membership)
        self.producer.abort_transaction(20)
        return error.value.args[0].name()


@KINDS
def test_a_transaction_closes_inside_on_revoke_and_not_behind_it(group, static):
    transactions = Transactions(group)
    one = group.join("one", static=static)
    group.until(lambda: one.owned == 4)
    (first,) = one.memberships
    assert (first.generation, first.fenced) == (1, True)

    seen = []

    def revoked():
        seen.append(one.now)
        # Longer than some heartbeats, by which the member learns to join.
        time.sleep(1)
        transactions.commit(7, first)

    one.revoked = revoked
    two = group.join("two", static=static)
    group.until(lambda: (one.owned, two.owned) == (2, 2))
    assert [(each.generation, each.metadata) for each in seen] == [(1, first.metadata)]
    assert group.committed()[0] == 7
    assert transactions.refused(first) == "ILLEGAL_GENERATION"
    one.revoked = lambda: None
    assert one.memberships[-1].generation == 2
    transactions.commit(8, one.memberships[-1])
    assert group.committed()[0] == 8


def test_a_static_member_leaves_where_its_partitions_are_revoked_before_it_is_closed(group):
    one, two = (group.join(name, static=True) for name in ("one", "two"))
    group.until(lambda: (one.owned, two.owned) == (2, 2))
    one.consumer.unsubscribe()
    # Closed at once it would stay a member for the session's time: its partitions would be revoked inside that.
    assert group.until(lambda: not one.now.member_id) < AT_ONCE
    group.members.remove(one)
    one.consumer.close()
    assert group.until(lambda: two.owned == 4) < AT_ONCE


def test_a_static_member_that_another_process_replaces_is_fenced(group):
    transactions, one = Transactions(group), group.join("one", static=True)
    group.until(lambda: one.owned == 4)
    again = group.join("one", static=True)
    assert group.until(lambda: again.owned == 4) < AT_ONCE
    (before,), (after,) = one.memberships, again.memberships
    # Nothing but the member id differs.
    assert (before.generation, before.partitions) == (after.generation, after.partitions)
    assert transactions.refused(before) == "FENCED_INSTANCE_ID"
    transactions.commit(5, after)
    # The first learns it by an error alone: neither are its partitions revoked nor does it lose them.
    problems = []
    one.revoked = lambda: problems.append("revoked")
    while not problems:
        message = one.consumer.poll(1)
        problems += [message.error().code()] if message is not None and message.error() is not None else []
    assert problems == [KafkaError._FATAL]


MEMBER = """
import json, signal, sys
from confluent_kafka import Consumer
settings, topic = json.loads(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
consumer = Consumer(settings)
consumer.subscribe([topic], on_assign=lambda _, places: print(sorted(each.partition for each in places), flush=True))
try:
    while True:
        consumer.poll(0.05)
finally:
    consumer.close()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "closed"])
def test_a_static_member_that_starts_again_has_its_partitions_and_disturbs_nobody(group, how):
    two = group.join("two", static=True)
    group.until(lambda: two.owned == 4)
    given = json.dumps([group.settings("one", static=True), group.topic])

    def start():
        return subprocess.Popen([sys.executable, "-c", MEMBER, given], stdout=subprocess.PIPE, text=True)

    with start() as first:
        group.until(lambda: two.owned == 2)
        owned = first.stdout.readline()
        first.send_signal(how)
    two.memberships.clear()
    with start() as again:
        began = time.monotonic()
        assert again.stdout.readline() == owned
        assert time.monotonic() - began < AT_ONCE
        # Some heartbeats of the other member.
        end = time.monotonic() + 1
        group.until(lambda: time.monotonic() > end)
        again.kill()
    assert two.memberships == []
    assert two.now.generation == 2
