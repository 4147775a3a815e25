"""A deployment in memory that can be replayed."""

from typing import Any

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.ranges import Span
from resonance.pipeline.records import Message
from resonance.pipeline.replay import bootstrapping, opening
from resonance.pipeline.verify import verify as verifying
from resonance.pipeline.verify.verify import Verdict

from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import settings


def put_behind_commands(patch: pytest.MonkeyPatch, deployment: MemoryDeployment) -> None:
    """Let the commands that replay find a deployment in memory."""
    for module in (opening, bootstrapping):
        patch.setattr(module, "LogReader", lambda *_: deployment)
    patch.setattr(opening, "read_logs", lambda *_: deployment.source.deployment)
    patch.setattr(bootstrapping, "check_start", lambda *_, **__: deployment.source.deployment)
    patch.setattr(bootstrapping, "wait_for_empty_group", lambda *_: None)
    patch.setattr(bootstrapping, "write", deployment.write)


class ReplayedDeployment(MemoryDeployment):
    """`MemoryDeployment` behind the commands that replay."""

    def __init__(self, patch: pytest.MonkeyPatch, partitions: int = 1, records: int = 600, **changed: Any) -> None:
        super().__init__(patch, partitions, records, **changed)
        put_behind_commands(patch, self)

    def expire(self, topic: str, below: int, partition: int = 0) -> None:
        """Delete the first records of a partition, as retention does."""
        self.logs[topic, partition] = [record for record in self.logs[topic, partition] if record.offset >= below]
        self.firsts[topic, partition] = below

    def recorded(self, kind: str = "assignments", partition: int = 0) -> list[Any]:
        """The log of an output."""
        return self.logs[self.given.topic(kind), partition]

    def replace(self, kind: str, place: int, **values: Any) -> None:
        """Change a recorded output."""
        log = self.recorded(kind)
        log[place] = log[place]._replace(**values)

    def again(self, kind: str, first: int, end: int) -> None:
        """Record outputs once more, as a worker does that delivers at least once and was killed."""
        for record in self.recorded(kind)[first:end]:
            self.append((self.given.topic(kind), 0), Message(record.key, record.value, record.headers))

    def changed(self, **values: Any) -> Settings:
        return settings(**{"stream": "key", **values})

    def verify(self, given: Settings | None = None, fresh: bool = False, **span: Any) -> Verdict:
        return verifying.verify(given or self.given, Span.parse(**span), fresh=fresh)
