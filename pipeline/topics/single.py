"""Topics of one partition, which no worker makes but the command that writes them."""

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.topics.configuration import differences_of, made_with, refuse_or_warn
from resonance.pipeline.topics.kinds import Topic, TopicKind


def ready(settings: Settings, admin: ClusterAdmin, kind: TopicKind) -> None:
    """Make the topic of a kind where it is missing, and check it where it is there."""
    topic = settings.topic(kind.name)
    if admin.embedded:
        admin.touch(topic)
        return
    operations, wanted = {topic: ("Write", "Read")}, Topic(kind, topic)
    config = made_with(wanted, {}, admin.copies)
    found = admin.describe([topic], operations).get(topic)
    if found is None:
        command = admin.command(topic, "1", config)
        if not settings.topics.create:
            raise BrokerError(f"topic {topic} does not exist on {admin.servers} and topics.create is off: {command}")
        admin.create(topic, 1, config, command)
        admin.wait_for_leaders([topic])
        return
    if found.operations is not None and "Write" not in found.operations:
        raise DeniedError(admin.denied(for_topic(topic, ["Write"])))
    refuse_or_warn(differences_of(admin, wanted, found, config))
