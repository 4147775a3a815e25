"""Remove from the group what an earlier process of this worker has left there: a rebalance would wait for it.

A worker that is killed stays a member until its session ends. Started again it has a new member id, and its join begins
a rebalance in which all partitions of all workers stand still until every member has joined again.

A member is removed only where it cannot be at work. Either its process is known to be gone: members say which process
of which machine they are. Or it has let `SILENT_SECONDS` of the rebalance pass, as no worker does that sends
heartbeats: one that is stopped or hangs is fenced by that, as at the end of its session. A second worker with the same
id joins in time, and stays.
"""

import asyncio
import logging
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocol, ConsumerProtocolMemberMetadata
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import LeaveGroupRequest

SILENT_SECONDS: Final = 2.0
"""Of a rebalance, after which a member that has not joined is removed; one at work joins within a heartbeat, the slice
that it learns, and a commit."""
ANSWER_SECONDS: Final = 5.0
"""How long a start waits for the list of the group's members."""
LOOK_SECONDS: Final = 0.05

_PROC: Final = Path("/proc")

_log = logging.getLogger(__name__)


class NamingAssignor(RoundRobinPartitionAssignor):  # type: ignore[misc] # untyped for mypy
    """aiokafka's own assignor; members of other releases, which name no process, get partitions as before."""

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return what the members know of each other: the topics, and the process."""
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), process_name().encode())


def process_name() -> str:
    """Return which process this is, on which start of which machine; empty where the system does not say."""
    return " ".join([*machine, str(os.getpid()), _started(os.getpid())]) if (machine := _machine()) else ""


def is_gone(name: str) -> bool:
    """Return whether a process of this machine has ended; False for those of another one, or another container."""
    *machine, pid, started = name.split() or ["", ""]
    if not machine or machine != _machine():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    # The number may be another process's by now.
    return _started(int(pid)) not in ("", started)


def _machine() -> list[str]:
    """Return the ids of this start of the kernel and of the process numbers that hold here."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return [boot, (_PROC / "self/ns/pid").readlink().name]
    except OSError:
        return []


def _started(pid: int) -> str:
    """Return when a process began, in the kernel's ticks; empty where that cannot be read."""
    try:
        # The name before it may contain anything.
        return (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return ""


async def remove_predecessors(consumer: Any) -> None:
    """Remove members with this worker's client id that were there before its first join, as it goes on.

    Runs in the consumer's thread, beside the join. Where the broker does not answer, the group waits for the session.
    """
    coordinator = consumer._coordinator
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await coordinator.ensure_coordinator_known()
            before = await _members(coordinator)
        if not before:
            return
        # Behind the join, for which the broker first gives an id: a group that this leaves empty would wait
        # `group.initial.rebalance.delay.ms` for more members.
        while not coordinator.member_id:
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(LOOK_SECONDS)
        gone = [member for member, name in before.items() if is_gone(name)]
        await _remove(coordinator, gone)
        if gone:
            _log.info("the process that had this worker's id has ended: removed from group %s", coordinator.group_id)
        # The list may have been late, and name this member as well.
        silent = sorted(before.keys() - gone - {coordinator.member_id})
        await asyncio.sleep(SILENT_SECONDS if silent else 0.0)
        if silent and coordinator.generation <= 0:
            _log.warning(
                "a rebalance of group %s has waited for %g s beside a member with this worker's id: removed; if that "
                "is another worker, give each its own worker.id",
                coordinator.group_id,
                SILENT_SECONDS,
            )
            await _remove(coordinator, silent)
    except Exception as error:  # whatever it is: without this the worker starts as well
        _log.debug("the group is left as it is: %s", error or type(error).__name__)


async def _members(coordinator: Any) -> dict[str, str]:
    """Return the process of each member that has this worker's client id."""
    answer = await coordinator._client.send(coordinator.coordinator_id, DescribeGroupsRequest([coordinator.group_id]))
    members = [member for _, _, _, _, _, members in answer.groups for member in members]
    own = coordinator._client._client_id
    return {member: _process_in(metadata) for member, client, _, metadata, _ in members if client == own}


def _process_in(metadata: bytes) -> str:
    """Return what `NamingAssignor` has written; empty during a rebalance, when the broker shows nothing."""
    try:
        return bytes(ConsumerProtocol.METADATA.decode(metadata).user_data or b"").decode()
    except (ValueError, TypeError):
        return ""


async def _remove(coordinator: Any, members: Collection[str]) -> None:
    for member in members:
        # Not over the connection on which the broker answers the join first.
        request = LeaveGroupRequest(coordinator.group_id, member)
        await coordinator._client.send(coordinator.coordinator_id, request)
