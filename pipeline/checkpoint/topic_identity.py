"""Compare the topics of a deployment, as the broker describes them, with those that its worker began with."""

from collections.abc import Mapping
from dataclasses import replace

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.compatibility import check_log
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.admin import FoundTopic


def check_topics(source: DeploymentContext, found: Mapping[str, FoundTopic]) -> None:
    """Check that no topic was deleted or recreated, and that no log got partitions that its models cannot have.

    Raises MismatchError, with the remedy, where one was; BrokerError for a topic that the next start makes again.
    """
    for topic, known in source.identities.items():
        if (there := found.get(topic)) is None:
            raise mismatches.topic_deleted(topic)
        now = replace(known, topic_id=there.topic_id, partitions=there.partitions)
        check_log(replace(source, identities={**source.identities, topic: now}), known)
    for topic, topic_id in source.deployment.output_ids.items():
        there = found.get(topic)
        if there is not None and there.topic_id == topic_id:
            continue
        if topic in (source.snapshots, source.archive):
            raise BrokerError(
                f"topic {topic} was deleted under the running worker; the next start makes it again, and learns from "
                "the log what its snapshots held"
            )
        raise mismatches.output_deleted(topic)
