"""A restore on the embedded broker, which knows neither transactions nor compaction."""

from confluent_kafka import Consumer, TopicPartition
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_note import OffsetNote
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.recovery.recovery import reset
from resonance.pipeline.topics.kinds import Topics
from resonance.pipeline.topics.topics import prepare_topics

from tests.brokers import produce
from tests.pipeline.toy_task import ToyTask


def test_state_outlives_a_worker_on_the_embedded_broker():
    with EmbeddedBroker([]) as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        found = prepare_topics(ClusterAdmin(client), Topics.named(["in"], snapshots="snap"))
        identity = Identity("pipe", ("in",), "in", "", 4, "toy", "1")
        source = DeploymentContext(client, "group", "snap", found, {"in": identity}, patience=10)
        assigned = [("in", partition) for partition in range(4)]
        produce(broker.bootstrap, "in", [(n % 4, b"k%d" % (n % 3), b"v%d" % n) for n in range(200)])
        with LogReader(client, "group", 10) as reader:
            log = list(reader.read(reader.bounds(assigned)))
        for end in (20, 33, 50):
            parts = restore_partitions(source, assigned, ToyTask)
            for at, part in parts.items():
                batch = [r for own, records in log if own == at for r in records if part.start <= r.offset < end]
                part.task.process(batch)
                messages = list(part.writer.messages(part.task, end, part.committed))
                produce(broker.bootstrap, "snap", [(at[1], m.key, m.value) for m in messages])
            committer = Consumer(client | {"group.id": "group"})
            note = OffsetNote("", reproducible=True).at(end)
            committer.commit(offsets=[TopicPartition(*at, end, note) for at in assigned], asynchronous=False)
            committer.close()
        expected = {at: ToyTask() for at in assigned}
        for at, records in log:
            expected[at].process(records)
        parts = restore_partitions(source, assigned, ToyTask)
        assert {at: part.task.models for at, part in parts.items()} == {at: t.models for at, t in expected.items()}
        assert reset(source, ToyTask, atomic=False) == 4
        assert {part.start for part in restore_partitions(source, assigned, ToyTask).values()} == {0}
