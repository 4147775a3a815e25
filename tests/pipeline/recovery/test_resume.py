"""Going on where the snapshots end: which offsets are set, and for which logs none is."""

from dataclasses import replace

import pytest
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.recovery.recovery import resume_from_snapshots

from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC


@pytest.fixture
def deployment(monkeypatch):
    made = MemoryDeployment(monkeypatch, 2, records=200)
    made.work(100)
    return made


@pytest.mark.parametrize("offset", [150, 100, 40])
def test_an_offset_of_another_program_is_set_to_where_the_snapshots_end(deployment, offset):
    deployment.offsets[TOPIC, 0], deployment.beside[TOPIC, 0] = offset, ""
    with pytest.raises(MismatchError, match="--resume-from-snapshot"):
        deployment.restored(TOPIC)
    assert resume_from_snapshots(deployment.source) == 1
    assert deployment.offsets[TOPIC, 0] == 100
    assert resume_from_snapshots(deployment.source) == 0
    assert len(deployment.work(200).assignments) == 200


def test_no_offset_is_written_into_the_group_of_another_log(deployment):
    deployment.offsets[TOPIC, 0], deployment.beside[TOPIC, 0] = 40, ""
    known = deployment.source.deployment
    again = replace(known, topic_ids={**known.topic_ids, TOPIC: "id-9"})
    source = DeploymentContext.of(deployment.given, {}, again)
    with pytest.raises(MismatchError, match="was deleted and made again"):
        resume_from_snapshots(source)
    assert deployment.offsets[TOPIC, 0] == 40
