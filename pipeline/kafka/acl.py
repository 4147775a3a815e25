"""One right on one resource of the cluster, as `kafka-acls` writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Resource = Literal["topic", "group", "transactional-id"]


@dataclass(frozen=True, slots=True)
class Acl:
    """Operations that a principal may do on one resource."""

    resource: Resource
    """Kind of the resource, as `kafka-acls` names it."""
    name: str
    """Name of the resource, or a prefix of names."""
    operations: tuple[str, ...]
    """As `kafka-acls` names them: ``Read``, ``DescribeConfigs``."""
    why: str
    """What the operations are for."""
    prefixed: bool = False
    """The right covers all resources whose names begin with `name`."""

    def command(self, servers: str, principal: str) -> str:
        """Return the command with which an administrator gives the right."""
        operations = " ".join(f"--operation {operation}" for operation in self.operations)
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        return (
            f"kafka-acls.sh --bootstrap-server {servers} --add --allow-principal {principal} "
            f"--{self.resource} {self.name}{pattern} {operations}"
        )


def principal_of(client: Mapping[str, Any]) -> str:
    """Return the principal for the ACLs: the user that logs in, a placeholder where certificates or nothing name it."""
    user = client.get("sasl.username")
    return f"User:{user}" if user else "User:NAME"


def for_topic(name: str, operations: Sequence[str], why: str = "") -> Acl:
    """Return the rights on one topic."""
    return Acl("topic", name, tuple(operations), why)


def for_group(group: str) -> Acl:
    """Return the right that a member of a consumer group needs."""
    return Acl("group", group, ("Read",), "join the group, keep the offsets of the input")


def for_transactions(name: str) -> Acl:
    """Return the right to transactions: every worker has its own id, recovery and `topics check` one more each."""
    return Acl(
        "transactional-id", f"{name}-", ("Write",), "write outputs, snapshots and offsets at once", prefixed=True
    )
