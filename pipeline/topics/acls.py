"""List the rights that a deployment needs where the cluster has ACLs, each with its purpose."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from resonance.pipeline.kafka.acl import Acl, for_group, for_topic, for_transactions
from resonance.pipeline.topics.kinds import INPUT, OPTIONAL, Topic, Topics

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings


ROLES: Final[Mapping[str, str]] = {
    "worker": "a worker; also `topics create`, `topics check`, `bootstrap`, `reset`, `snapshots import`, and "
    "`promote` over it (with the rights of an operator on the other deployment)",
    "subscriber": "a subscriber of the outputs, `watch`, `alerts`, `inspect CLUSTER`, `mcp` and `page` among them "
    "(which also shows the workers' group, with `Describe` on it)",
    "producer": "a producer of the input, `produce` among them",
    "operator": "an operator who looks and compares: `topics plan`, `topics look`, `replay`, `evaluate`, `verify`, "
    "`inspect`, peers and examples of `mcp`, `compare` (on both deployments), `snapshots list`, `snapshots export`",
    "names": "who names clusters: `inspect --as`",
    "incidents": "who publishes incidents: `alerts --publish`, with the rights of a subscriber",
    "dead letters": "an operator who lists and replays dead letters: `dlq list`, `dlq replay`",
}
"""Each role that needs rights, and what acts in it."""


def needed(settings: "Settings") -> dict[str, list[Acl]]:
    """Return the rights that each of `ROLES` needs."""
    topics, name = Topics.of(settings), settings.name
    create = ("Create",) if settings.topics.create else ()
    transactions = [for_transactions(name)] if settings.delivery.mode == "exactly_once" else []
    names = for_topic(settings.topic("names"), ("Read",), "show clusters under their names; it need not exist")
    fits = "write the input, know how large a record may be"
    groups = "a consumer group, where it has one (`watch` has none)"
    return {
        "worker": [
            *(_right(topic, *topic.kind.operations, "DescribeConfigs") for topic in topics.of_others),
            *(_right(topic, *create, *topic.kind.operations, "DescribeConfigs") for topic in topics.outputs),
            for_group(settings.group),
            *transactions,
        ],
        "subscriber": [
            *(_right(topic, "Read") for topic in topics.outputs if topic.kind.for_subscribers),
            names,
            for_topic(settings.topic("incidents"), ("Read",), "read incidents, where they are published"),
            Acl("group", f"{name}-", ("Read",), groups, prefixed=True),
        ],
        "producer": [
            *(for_topic(topic.name, ("Write", "DescribeConfigs"), fits) for topic in topics.inputs),
            *(for_topic(topic.name, ("Write",), "write labels") for topic in topics.labels),
        ],
        "operator": [
            *(_right(topic, "Read", "DescribeConfigs") for topic in topics.all),
            *(_right(Topic(kind, settings.topic(kind.name)), "Read", "DescribeConfigs") for kind in OPTIONAL),
            Acl("group", settings.group, ("Describe",), "see where the group stands"),
        ],
        "names": [
            for_topic(settings.topic("clusters"), ("Read",), "know which clusters there are"),
            for_topic(settings.topic("cluster_events"), ("Read",), "say what became of those that ended"),
            for_topic(settings.topic("names"), (*create, "Write", "Read", "DescribeConfigs"), "write names"),
        ],
        "incidents": [
            for_topic(settings.topic("incidents"), (*create, "Write", "Read", "DescribeConfigs"), "write incidents"),
        ],
        "dead letters": [
            for_topic(settings.topic("dead_letters"), ("Read",), "read dead letters"),
            *(for_topic(topic.name, ("Write", "DescribeConfigs"), "replay them") for topic in topics.of_others),
            Acl("group", replay_group(name), ("Read",), "keep what was replayed"),
            Acl("transactional-id", replay_id(name), ("Write",), "replay each once"),
        ],
    }


def _right(topic: Topic, *operations: str) -> Acl:
    what = "the input" if topic.kind is INPUT else topic.kind.title
    if "Write" in operations:
        return for_topic(topic.name, operations, f"write {what}{' and read them back' * ('Read' in operations)}")
    return for_topic(topic.name, operations, f"read {what}")


def replay_group(name: str) -> str:
    """Return the group whose offsets record which of a deployment's dead letters were replayed."""
    return f"{name}.dlq-replay"


def replay_id(name: str) -> str:
    """Return the transactional id under which a deployment's dead letters are replayed."""
    return f"{name}-dlq-replay"
