"""Present a deployment's topics as rows of a table, and as plain values for programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from resonance.pipeline.kafka.acl import Acl
from resonance.pipeline.task.alerts.sentences import length
from resonance.pipeline.topics.acls import ROLES
from resonance.pipeline.topics.topics import TopicStatus, TopicSurvey

COLUMNS: Final = ("topic", "what", "state", "partitions", "cleanup", "kept for", "largest message")


def state_of(status: TopicStatus) -> str:
    """Return ``exists``, ``missing``, ``differs`` or ``differs, stops the start``."""
    if status.found is None:
        return "missing"
    if any(difference.stops for difference in status.differences):
        return "differs, stops the start"
    return "differs" if status.differences else "exists"


def row(status: TopicStatus) -> list[object]:
    """Return a topic as cells under `COLUMNS`."""
    missing = "optional" if status.topic.kind.made_by else "would be created"
    config = status.made_with if status.found is None else status.found.config
    unknown = "broker's default" if status.found is None else "unknown"
    partitions = status.partitions if status.found is None else status.found.partitions
    return [
        status.topic.name,
        status.topic.kind.title,
        missing if status.found is None else state_of(status),
        partitions,
        config.get("cleanup.policy", unknown),
        _duration(config.get("retention.ms"), config.get("cleanup.policy", ""), unknown),
        int(config["max.message.bytes"]) if "max.message.bytes" in config else unknown,
    ]


def notes(found: TopicSurvey, optional: Sequence[TopicStatus]) -> list[str]:
    """Return what the table has no room for: differences with remedies, and commands for missing topics."""
    lines = [each.text for status in (*found.all, *optional) for each in status.differences]
    if found.missing:
        lines.append("missing topics are made by `resonance topics create`, by a worker (topics.create), or by")
        lines += [f"  {status.command}" for status in found.missing]
    for status in (each for each in optional if each.found is None):
        made = f"`resonance {status.topic.kind.made_by}` makes {status.topic.name} (topics.create); or make it by"
        lines += [made, f"  {status.command}"]
    return lines


def as_values(found: TopicSurvey, optional: Sequence[TopicStatus]) -> dict[str, Any]:
    """Return a survey as plain values."""
    return {
        "partitions": found.partitions,
        "topics": [_topic_values(status) for status in found.all],
        "optional": [_topic_values(status) for status in optional],
    }


def _topic_values(status: TopicStatus) -> dict[str, Any]:
    return {
        "topic": status.topic.name,
        "kind": status.topic.kind.name,
        "meaning": status.topic.kind.meaning,
        "state": state_of(status).partition(",")[0],
        "partitions": None if status.found is None else status.found.partitions,
        "wanted_partitions": status.partitions,
        "config": None if status.found is None else dict(status.found.config),
        "made_with": dict(status.made_with),
        "command": status.command,
        "differences": [{"text": each.text, "stops": each.stops} for each in status.differences],
    }


def acl_lines(servers: str, principal: str, rights: Mapping[str, Sequence[Acl]]) -> list[str]:
    """Return the commands that grant the rights, under a comment for each role."""
    lines = []
    for role, acls in rights.items():
        lines.append(f"# {role}: {ROLES[role]}")
        for acl in acls:
            lines += [f"# {acl.why}", acl.command(servers, principal)]
    return lines


def acl_values(servers: str, principal: str, rights: Mapping[str, Sequence[Acl]]) -> dict[str, Any]:
    """Return the rights as plain values."""
    return {
        "principal": principal,
        "acls": [
            {
                "role": role,
                "resource": acl.resource,
                "name": acl.name,
                "pattern": "prefixed" if acl.prefixed else "literal",
                "operations": list(acl.operations),
                "why": acl.why,
                "command": acl.command(servers, principal),
            }
            for role, acls in rights.items()
            for acl in acls
        ],
    }


def _duration(milliseconds: str | None, policy: str, unknown: str) -> str:
    if "compact" in policy.split(",") and "delete" not in policy.split(","):
        return "newest of each key"
    if milliseconds is None:
        return unknown
    time = int(milliseconds)
    return "ever" if time < 0 else length(time / 1000)
