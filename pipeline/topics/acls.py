"""The rights that a deployment needs where the cluster has ACLs, one by one, with what each is for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from resonance.pipeline.dead_letters.progress import replay_group, replay_id
from resonance.pipeline.topics.kinds import INPUT, Topic, Topics

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings

Resource = Literal["topic", "group", "transactional-id"]

ROLES: Final[Mapping[str, str]] = {
    "worker": "a worker; also `topics create`, `topics check`, `bootstrap`, `reset`, `snapshots import`",
    "subscriber": "whoever subscribes to the outputs, `watch` among them",
    "producer": "whoever writes the input, `produce` among them",
    "operator": "whoever looks and compares: `topics plan`, `replay`, `verify`, `inspect`, `snapshots list`, "
    "`snapshots export`, `snapshots diff`",
    "dead letters": "whoever lists and replays dead letters: `dlq list`, `dlq replay`",
}
"""Who needs rights, and who that is."""


@dataclass(frozen=True, slots=True)
class Acl:
    """Operations that a principal may do on one resource.

    Attributes
    ----------
    resource : {"topic", "group", "transactional-id"}
        Kind of the resource, as `kafka-acls` names it.
    name : str
        Its name, or how the names begin.
    operations : tuple of str
        As `kafka-acls` names them: ``Read``, ``DescribeConfigs``.
    why : str
        What for.
    prefixed : bool
        All resources whose names begin like this.
    """

    resource: Resource
    name: str
    operations: tuple[str, ...]
    why: str
    prefixed: bool = False

    def command(self, servers: str, principal: str) -> str:
        """Return the command that an administrator runs."""
        operations = " ".join(f"--operation {operation}" for operation in self.operations)
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        return (
            f"kafka-acls.sh --bootstrap-server {servers} --add --allow-principal {principal} "
            f"--{self.resource} {self.name}{pattern} {operations}"
        )


def principal_of(client: Mapping[str, Any]) -> str:
    """Return whom the ACLs must name: the user that logs in, a placeholder where certificates or nothing say it."""
    user = client.get("sasl.username")
    return f"User:{user}" if user else "User:NAME"


def needed(settings: "Settings") -> dict[str, list[Acl]]:
    """Return the rights that each of `ROLES` needs."""
    topics = Topics.of(settings)
    return {
        "worker": _worker(settings, topics),
        "subscriber": _subscriber(settings, topics),
        "producer": _producer(topics),
        "operator": _operator(settings, topics),
        "dead letters": _dead_letters(settings, topics),
    }


def for_topic(name: str, operations: Sequence[str], why: str = "") -> Acl:
    """Return the rights on one topic."""
    return Acl("topic", name, tuple(operations), why)


def for_group(group: str) -> Acl:
    """Return what a member of a consumer group needs."""
    return Acl("group", group, ("Read",), "join the group, keep the offsets of the input")


def for_transactions(name: str) -> Acl:
    """Return what transactions need: every worker has an id of its own, mending and `topics check` one more each."""
    return Acl(
        "transactional-id", f"{name}-", ("Write",), "write outputs, snapshots and offsets at once", prefixed=True
    )


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
    return [*rights, Acl("group", settings.group, ("Describe",), "see where the group stands")]
