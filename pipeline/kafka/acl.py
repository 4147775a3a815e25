"""One right on one resource of the cluster, as `kafka-acls` writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    pass

Resource = Literal["topic", "group", "transactional-id"]


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


def for_topic(name: str, operations: Sequence[str], why: str = "") -> Acl:
    """Return the rights on one topic."""
    return Acl("topic", name, tuple(operations), why)


def for_group(group: str) -> Acl:
    """Return what a member of a consumer group needs."""
    return Acl("group", group, ("Read",), "join the group, keep the offsets of the input")


def for_transactions(name: str) -> Acl:
    """Return what transactions need: every worker has an id of its own, recovery and `topics check` one more each."""
    return Acl(
        "transactional-id", f"{name}-", ("Write",), "write outputs, snapshots and offsets at once", prefixed=True
    )
