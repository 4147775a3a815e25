"""Topics of one partition, which no worker makes but the command that writes them."""

from collections.abc import Sequence

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.topics.configuration import differences_of, made_with, refuse_or_warn
from resonance.pipeline.topics.kinds import Topic, TopicKind
from resonance.pipeline.topics.topics import TopicStatus


def look_at(settings: Settings, admin: ClusterAdmin, kind: TopicKind, operations: Sequence[str] = ()) -> TopicStatus:
    """Return the topic of a kind as it is; `DeniedError` where it is hidden from who needs one of `operations`."""
    topic = Topic(kind, settings.topic(kind.name))
    config = made_with(topic, {}, admin.copies)
    found = admin.describe([topic.name], {topic.name: operations}).get(topic.name)
    differences = () if found is None else differences_of(admin, topic, found, config)
    return TopicStatus(topic, found, config, admin.command(topic.name, "1", config), differences, 1)


def ready(settings: Settings, admin: ClusterAdmin, kind: TopicKind) -> None:
    """Make the topic of a kind where it is missing, and check it where it is there."""
    topic = settings.topic(kind.name)
    if admin.embedded:
        admin.touch(topic)
        return
    status = look_at(settings, admin, kind, ("Write", "Read"))
    if status.found is None:
        if not settings.topics.create:
            missing = f"topic {topic} does not exist on {admin.servers} and topics.create is off"
            raise BrokerError(f"{missing}: {status.command}")
        admin.create(topic, 1, status.made_with, status.command)
        admin.wait_for_leaders([topic])
        return
    if status.found.operations is not None and "Write" not in status.found.operations:
        raise DeniedError(admin.denied(for_topic(topic, ["Write"])))
    refuse_or_warn(status.differences)
