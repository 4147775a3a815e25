"""The worker's consumer thread in groups of a cluster: what only that shows of positions, topics and rebalances."""

import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from faust.types import TP
from resonance.pipeline.worker.transport.log_ends import LogEnd

from tests.brokers import create_topic, topic_name
from tests.pipeline.worker.transport.fakes import Member, event_loop

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]
ENOUGH = 30.0


class GroupMember(Member):
    """A member that reads on from the group's offsets, as soon as partitions are assigned to it."""

    def __init__(self, broker, loop, group, name, topic, session=6.0):
        super().__init__(loop, {"bootstrap.servers": broker, "client.id": name}, group, session_seconds=session)
        self.thread.subscribe([topic])

    def begin(self, partitions):
        """Read on with the next membership, which has so many partitions."""
        membership = self.memberships.get(timeout=ENOUGH)
        while len(membership.partitions) != partitions:
            membership = self.memberships.get(timeout=ENOUGH)
        settings = {"bootstrap.servers": self.options.client["bootstrap.servers"], "group.id": self.options.group}
        reader = Consumer(settings)
        places = reader.committed([TopicPartition(*tp) for tp in membership.partitions], ENOUGH)
        reader.close()
        positions = {TP(place.topic, place.partition): max(place.offset, 0) for place in places}
        self.thread.seek(positions, membership.generation).result(ENOUGH)

    def records(self):
        return [(c.partition, int(offset)) for c in self.owner.chunks if c.value for offset in c.value.offsets]


@contextmanager
def members(broker, topic, *names):
    group = topic_name("group")
    with event_loop() as loop, ExitStack() as leaving:

        def join(name, **changes):
            member = GroupMember(broker, loop, group, name, topic, **changes)
            leaving.callback(member.thread.left.wait, ENOUGH)
            leaving.callback(member.thread.leave)
            return member

        yield join


def transactional(broker):
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic_name("sender")})
    producer.init_transactions(ENOUGH)
    return producer


def send(producer, topic, count):
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"v", partition=0)
    producer.flush(ENOUGH)


def test_positions_move_over_markers_and_what_was_aborted_but_not_into_an_open_transaction(broker):
    topic = create_topic(broker, "in", partitions=1)
    producer = transactional(broker)
    send(producer, topic, 3)
    producer.commit_transaction(ENOUGH)
    send(producer, topic, 2)
    producer.abort_transaction(ENOUGH)
    with members(broker, topic) as join:
        member = join("one")
        member.begin(1)
        place = TP(topic, 0)
        member.until(lambda: member.thread.positions.get(place) == 7)
        member.until(lambda: place in member.thread.reported)
        assert member.thread.reported[place][1] == LogEnd(7, 7)
        assert member.records() == [(0, 0), (0, 1), (0, 2)]
        send(producer, topic, 2)
        time.sleep(0.7)
        assert member.thread.positions == {place: 7}
        producer.commit_transaction(ENOUGH)
        member.until(lambda: member.thread.positions.get(place) == 10)
        assert member.records()[3:] == [(0, 7), (0, 8)]
        positions = [(c.position, c.next_offset) for c in member.owner.chunks]
        assert [first for first, _ in positions[1:]] == [last for _, last in positions[:-1]]


def test_a_topic_that_is_made_later_is_missing_until_then_and_read_at_once(broker):
    topic, admin = topic_name("later"), AdminClient({"bootstrap.servers": broker})
    with members(broker, topic) as join:
        member = join("one")
        member.until(lambda: member.thread.missing == {topic})
        admin.create_topics([NewTopic(topic, 2)])[topic].result(ENOUGH)
        began = time.monotonic()
        member.begin(2)
        member.until(lambda: not member.thread.missing)
        assert time.monotonic() - began < 10


def test_a_commit_inside_a_rebalance_under_load_is_in_time(broker):
    topic = create_topic(broker, "in", partitions=4)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(20_000):
        producer.produce(topic, b"%d" % number, partition=number % 4)
    producer.flush(ENOUGH)
    with members(broker, topic) as join:
        one = join("one")

        def commit():
            """As at least once does it: what was handed over, from another thread than the one that waits."""
            done = {}
            for chunk in one.owner.chunks:
                done[chunk.tp] = chunk.next_offset
            one.thread.commit(done, {}, lambda: True, ENOUGH)

        one.before_revoke = commit
        one.begin(4)
        one.until(lambda: one.owner.chunks)
        two = join("two")
        two.begin(2)
        handed = len(one.records())
        one.begin(2)
        one.until(lambda: len(one.records()) + len(two.records()) >= 20_000)
        assert handed > 0
        assert sorted(one.records() + two.records()) == [(at, n) for at in range(4) for n in range(5000)]


SCRIPT = """
import sys, time
from tests.integration.test_client_thread import members
with members(*sys.argv[1:]) as join:
    member = join("one")
    member.owner.room = False
    member.begin(1)
    time.sleep(0.3)
    member.thread.call(lambda: 1 / 0)
    while not member.owner.errors:
        time.sleep(0.01)
    print("failed", flush=True)
"""


def test_a_process_ends_soon_after_a_failure_with_records_in_its_queue(broker):
    topic, producer = create_topic(broker, "in", partitions=1), Producer({"bootstrap.servers": broker})
    for _ in range(5000):
        producer.produce(topic, b"v")
    producer.flush(ENOUGH)
    with subprocess.Popen([sys.executable, "-c", SCRIPT, broker, topic], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "failed\n"
        began = time.monotonic()
        assert process.wait(ENOUGH) == 0
        assert time.monotonic() - began < 2


def test_who_leaves_while_a_join_goes_on_stays_no_member(broker):
    topic = create_topic(broker, "in", partitions=4)
    with members(broker, topic) as join:
        # Longer than this test waits.
        one = join("one", session=45.0)
        one.begin(4)
        one.before_revoke = lambda: time.sleep(2.0)
        two = join("two", session=45.0)
        time.sleep(1.0)
        two.thread.leave()
        assert two.thread.left.wait(ENOUGH)
        while len(one.memberships.get(timeout=ENOUGH).partitions) != 4:
            pass
