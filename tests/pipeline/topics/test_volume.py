"""Bytes a day of the archive are those of the present one, once an interval."""

import pytest
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Message, StreamSnapshot
from resonance.pipeline.topics import volume
from resonance.pipeline.topics.topics import Topics, survey

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.logs import MemoryReader

GIVEN = Settings.of({"input.topics": ["in"], "name": "shop", "stream": "key"})
DEPLOYMENT = Deployment(2, {"in": "id-1"})


class Models(list):
    def states(self):
        yield StreamSnapshot("p0", 5, {}, bytes(self.size))


class Task:
    """One stream, whose state has so many bytes."""

    def __init__(self, size):
        self.models = Models()
        self.models.size = size

    def partition_state(self):
        return b"{}"


@pytest.mark.parametrize(("earlier", "chunk"), [(0, 1_000), (3, 1_000), (0, 100)])
def test_an_archive_of_each_partition_comes_once_an_interval(earlier, chunk):
    reader = MemoryReader()
    source = DeploymentContext.of(GIVEN, {}, DEPLOYMENT)
    cluster = FakeCluster({"in": (2, {}), "shop.archive": (2, {})})
    sizes = []
    for partition in range(2):
        reader.logs["in", partition] = []
        writer = ArchiveWriter(
            "shop.archive", partition, ChangelogWriter(source.identities["in"], partition), 1.0, chunk_bytes=chunk
        )
        for number in range(earlier + 1):
            size = 30_000 * (partition + 1) if number == earlier else 700
            messages = list(writer.messages(Task(size), 10 * (number + 1), -1))
            for message in messages:
                reader.append(("shop.archive", partition), message)
        sizes.append(sum(12 + len(message.key) + len(message.value) for message in messages))
    found = survey(cluster, Topics.of(GIVEN))
    samples = volume.sample(reader, found)
    text = volume.volumes(GIVEN, found, 10.0, 100.0, samples)["shop.archive"]
    assert text.day == pytest.approx(sum(sizes) * 24, rel=0.05)
    never = Settings.of({"input.topics": ["in"], "name": "shop", "stream": "key", "snapshots.archive_interval": 0})
    assert volume.volumes(never, found, 10.0, 100.0, samples)["shop.archive"].day is None


def test_what_is_no_archive_says_nothing():
    reader = MemoryReader()
    for message in (Message(b"?", b"", []), Message(b'["archive","in",7]', b"?", [])):
        reader.append(("shop.archive", 0), message)
    assert volume._archived(reader.logs["shop.archive", 0]) == 0.0
