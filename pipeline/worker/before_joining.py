"""Compare a deployment with its snapshots before a worker joins the group.

A worker that finds out later has taken partitions from the others, which then wait for its session to time out.
"""

import logging
from collections.abc import Mapping
from typing import Any

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.newest_records import check_newest, newest_records
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.topics.kinds import Topics, always
from resonance.pipeline.topics.topics import read_deployment

_log = logging.getLogger(__name__)


def check_before_joining(settings: Settings, client: Mapping[str, Any], recovery: str) -> None:
    """Check logs, settings and outputs against the newest snapshots; nothing is changed.

    A recovery compares what it recovers from itself, and only a reset gives up outputs. Raises MismatchError where they
    do not belong together; a topic or a right that is missing is left to the check of the topics.
    """
    if recovery == mismatches.RESET:
        return
    cluster = ClusterAdmin(client, settings.broker.answer_timeout)
    topics = Topics.of(settings)
    if cluster.embedded:
        return
    try:
        # Without routes that a changed `stream` would need: a refused start makes no topics.
        source = DeploymentContext.of(settings, client, read_deployment(cluster, topics, or_unrouted=True))
        with LogReader(client, source.group, source.patience) as reader:
            records = newest_records(reader, source)
    except BrokerError as error:
        _log.debug("nothing is compared with snapshots yet: %s", error)
        return
    if recovery != mismatches.RESUME:
        check_newest(source, records, recovery)
    if any(record.position > 0 for record in records.values()):
        there = cluster.partition_counts()
        for topic in topics.outputs:
            if topic.kind.wanted is always and topic.kind.for_subscribers and topic.name not in there:
                cluster.check_seen(topic.name)
                raise mismatches.output_deleted(topic.name)
