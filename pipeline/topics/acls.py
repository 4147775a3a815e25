"""List the rights that a deployment needs where the cluster has ACLs, each with its purpose."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from resonance.pipeline.kafka.acl import Acl, for_group, for_topic, for_transactions
from resonance.pipeline.topics.kinds import INPUT, Topic, Topics

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings


ROLES: Final[Mapping[str, str]] = {
    "worker": "a worker; also `topics create`, `topics check`, `bootstrap`, `reset`, `snapshots import`, and "
    "`promote` over it (with the rights of an operator on the other deployment)",
    "subscriber": "a subscriber of the outputs, `watch`, `alerts`, `inspect CLUSTER` and `page` among them (which also "
    "shows the workers' group, with `Describe` on it)",
    "producer": "a producer of the input, `produce` among them",
    "operator": "an operator who looks and compares: `topics plan`, `replay`, `evaluate`, `verify`, `inspect`, "
    "`compare` (on both deployments), `snapshots list`, `snapshots export`",
    "names": "who names clusters: `inspect --as`",
    "dead letters": "an operator who lists and replays dead letters: `dlq list`, `dlq replay`",
}
"""Each role that needs rights, and what acts in it."""


def needed(settings: "Settings") -> dict[str, list[Acl]]:
    """Return the rights that each of `ROLES` needs."""
    topics = Topics.of(settings)
    return {
        "worker": _worker(settings, topics),
        "subscriber": _subscriber(settings, topics),
        "producer": _producer(topics),
        "operator": _operator(settings, topics),
        "names": _names(settings),
        "dead letters": _dead_letters(settings, topics),
    }


def _worker(settings: "Settings", topics: Topics) -> list[Acl]:
    rights = [
        for_topic(topic.name, (*topic.kind.operations, "DescribeConfigs"), _read_why(topic))
        for topic in topics.of_others
    ]
    create = ("Create",) if settings.topics.create else ()
    for topic in topics.outputs:
        why = f"write {topic.kind.title}" + (" and read them back" if topic.kind.worker_reads else "")
        rights.append(for_topic(topic.name, (*create, *topic.kind.operations, "DescribeConfigs"), why))
    rights.append(for_group(settings.group))
    if settings.delivery.mode == "exactly_once":
        rights.append(for_transactions(settings.name))
    return rights


def _read_why(topic: Topic) -> str:
    return "read the input" if topic.kind is INPUT else f"read {topic.kind.title}"


def _subscriber(settings: "Settings", topics: Topics) -> list[Acl]:
    rights = [
        for_topic(topic.name, ("Read",), f"read {topic.kind.title}")
        for topic in topics.outputs
        if topic.kind.for_subscribers
    ]
    return [
        *rights,
        _read_names(settings),
        Acl(
            "group",
            f"{settings.name}-",
            ("Read",),
            "a consumer group, where it has one (`watch` has none)",
            prefixed=True,
        ),
    ]


def _producer(topics: Topics) -> list[Acl]:
    return [
        for_topic(topic.name, ("Write", "DescribeConfigs"), "write the input, know how large a record may be")
        for topic in topics.inputs
    ] + [for_topic(topic.name, ("Write",), "write labels") for topic in topics.labels]


def _dead_letters(settings: "Settings", topics: Topics) -> list[Acl]:
    return [
        for_topic(settings.topic("dead_letters"), ("Read",), "read dead letters"),
        *(for_topic(topic.name, ("Write", "DescribeConfigs"), "replay them") for topic in topics.of_others),
        Acl("group", replay_group(settings.name), ("Read",), "keep what was replayed"),
        Acl("transactional-id", replay_id(settings.name), ("Write",), "replay each once"),
    ]


def _operator(settings: "Settings", topics: Topics) -> list[Acl]:
    rights = [for_topic(topic.name, ("Read", "DescribeConfigs"), f"read {topic.kind.title}") for topic in topics.all]
    return [
        *rights,
        _read_names(settings),
        Acl("group", settings.group, ("Describe",), "see where the group stands"),
    ]


def _read_names(settings: "Settings") -> Acl:
    return for_topic(settings.topic("names"), ("Read",), "show clusters under their names; it need not exist")


def _names(settings: "Settings") -> list[Acl]:
    create = ("Create",) if settings.topics.create else ()
    return [
        for_topic(settings.topic("clusters"), ("Read",), "know which clusters there are"),
        for_topic(settings.topic("cluster_events"), ("Read",), "say what became of those that ended"),
        for_topic(settings.topic("names"), (*create, "Write", "Read", "DescribeConfigs"), "write names"),
    ]


def replay_group(name: str) -> str:
    """Return the group whose offsets record which of a deployment's dead letters were replayed."""
    return f"{name}.dlq-replay"


def replay_id(name: str) -> str:
    """Return the transactional id under which a deployment's dead letters are replayed."""
    return f"{name}-dlq-replay"
