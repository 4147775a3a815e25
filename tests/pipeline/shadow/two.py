"""A live deployment and its shadow, in memory, on one input."""

from functools import partial

import pytest
from resonance.pipeline.checkpoint import archive_writer
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.recovery import entry, rewrite
from resonance.pipeline.shadow import deployments

from tests.pipeline.memory_deployment import MemoryDeployment

LIVE, SHADOW = "orders", "orders-shadow"


class Both:
    """The two, with one set of logs and an offset of each in the input."""

    def __init__(self, patch, partitions=1, records=600, given=(), **changed):
        own = dict(given)
        self.live = MemoryDeployment(patch, partitions, records, name=LIVE, **own)
        self.shadow = MemoryDeployment(patch, partitions, records, name=SHADOW, **{**own, "shadow_of": LIVE, **changed})
        # The input of the live one counts.
        self.shadow.logs |= self.live.logs
        self.live.logs = self.shadow.logs
        self.by_group = {one.given.group: one for one in (self.live, self.shadow)}
        patch.setattr(DeploymentContext, "reader", lambda source, *_, **__: self.of(source))
        patch.setattr(deployments, "read_logs", lambda _, settings: self.of(settings).source.deployment)
        patch.setattr(archive_writer, "ArchiveWriter", partial(ArchiveWriter, now=self.live._now))
        patch.setattr(entry, "open_source", lambda settings: self.of(settings).source)
        patch.setattr(rewrite, "write", lambda source, *given, **how: self.of(source).write(source, *given, **how))
        patch.setattr(rewrite, "end_open_transaction", lambda _: None)
        patch.setattr(ClusterAdmin, "__init__", lambda *_: None)
        patch.setattr(ClusterAdmin, "partition_counts", lambda _: {topic: 1 for topic, _ in self.live.logs})
        patch.setattr("resonance.pipeline.cli.options.load_settings", lambda *_, **__: self.live.given)

    def of(self, settings):
        return self.by_group.get(settings.group, self.live)

    def promoted(self):
        """Let the live one go on with the settings of the shadow."""
        given = settings_then(self.live.given, next(iter(self.shadow.source.identities.values())))
        self.live.take_settings(given)


@pytest.fixture
def both(monkeypatch):
    """A shadow with another engine; both have answered everything, and hold snapshots."""
    made = Both(monkeypatch, engine__name="caea")
    for one in (made.live, made.shadow):
        one.work(300, archive=True)
        one.work(600, everything=True)
    return made
