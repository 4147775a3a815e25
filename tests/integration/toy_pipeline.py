"""A pipeline of toy tasks on a real broker: what it does is known without looking."""

from confluent_kafka import Consumer, Producer, TopicPartition
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import OffsetMetadata
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.topics.kinds import Topics
from resonance.pipeline.topics.topics import prepare_topics

from tests.brokers import create_topic, topic_name
from tests.pipeline.toy_task import ToyTask


class Pipeline:
    """An input with transactions in it, a group without members, and a worker in a loop."""

    def __init__(self, broker, partitions=2, **config):
        self.broker = broker
        self.client = {"bootstrap.servers": broker}
        self.topic = create_topic(broker, "in", partitions=partitions, **config)
        self.group = topic_name("group")
        self.snapshots = f"{self.group}.snapshots"
        self.partitions = range(partitions)
        self.assigned = [(self.topic, partition) for partition in self.partitions]
        self.source = self.deployed()
        self.sender = self.transactional("sender")
        self.sent = 0

    def deployed(self, mode="exactly_once"):
        given = {"name": self.group, "input.topics": [self.topic], "broker.session_timeout": 6, "delivery.mode": mode}
        found = prepare_topics(ClusterAdmin(self.client), Topics.named([self.topic], snapshots=self.snapshots))
        topic_id, partitions = found.topic_ids[self.topic], found.partitions
        identity = Identity("pipe", (self.topic,), self.topic, topic_id, partitions, "toy", "1")
        return DeploymentContext(Settings.of(given), self.client, found, {self.topic: identity})

    def transactional(self, name, **config):
        identity = {"transactional.id": f"{self.group}-{name}", "transaction.timeout.ms": 5000}
        producer = Producer(self.client | identity | config)
        producer.init_transactions(20)
        return producer

    def feed(self, count, *, commit=True):
        """Append a transaction of `count` records to each partition, and wait until readers see it.

        The broker answers a commit or an abort before its markers stand in the logs.
        """
        self.sender.begin_transaction()
        for _ in range(count):
            for partition in self.partitions:
                self.sender.produce(self.topic, b"value %d" % self.sent, b"k%d" % (self.sent % 3), partition)
            self.sent += 1
        self.sender.flush(10)
        (self.sender.commit_transaction if commit else self.sender.abort_transaction)(10)
        with LogReader(self.client, self.group, 20) as reader:
            reader.settled_bounds(self.assigned, 30)

    def records(self):
        with LogReader(self.client, self.group, 20) as reader:
            return [(at, records) for at, records in reader.read(reader.bounds(self.assigned))]

    def restored(self, cancelled=None):
        return restore_partitions(self.source, self.assigned, ToyTask, cancelled)

    def work(self, producer, *, until=None, finish=True):
        """Restore, process up to an offset, and commit outputs, snapshots and offsets in one transaction."""
        parts = self.restored()
        positions = {at: part.start for at, part in parts.items()}
        for at, records in self.records():
            mine = [r for r in records if positions[at] <= r.offset < (until or r.offset + 1)]
            parts[at].task.process(mine)
            positions[at] = max([positions[at], *(r.offset + 1 for r in mine)])
        producer.begin_transaction()
        for at, part in parts.items():
            for message in part.writer.messages(part.task, positions[at], positions[at]):
                producer.produce(self.snapshots, message.value, message.key, at[1])
        note = OffsetMetadata(self.source.identities[self.topic].topic_id, reproducible=True)
        offsets = [TopicPartition(*at, offset, note.at(offset)) for at, offset in positions.items()]
        metadata = Consumer(self.client | {"group.id": self.group}).consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, 10)
        producer.flush(10)
        if finish:
            producer.commit_transaction(10)
        return parts

    def expected(self, until=None):
        tasks = {at: ToyTask(*at) for at in self.assigned}
        for at, records in self.records():
            tasks[at].process([r for r in records if until is None or r.offset < until])
        return {at: task.models for at, task in tasks.items()}


def models(parts):
    """Models of restored partitions."""
    return {at: part.task.models for at, part in parts.items()}
