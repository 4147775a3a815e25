"""Members that an earlier process of a worker has left in the group: which of them are removed, and when."""

import asyncio
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.group import LeaveGroupRequest
from resonance.pipeline.worker.transport import predecessors
from resonance.pipeline.worker.transport.predecessors import NamingAssignor, is_gone, process_name

NAME = (
    "import os, sys; from resonance.pipeline.worker.transport.predecessors import process_name; print(process_name())"
)
pytestmark = pytest.mark.skipif(not process_name(), reason="the system does not say which process this is")


@pytest.fixture(scope="module")
def ended():
    """The name of a process that has ended."""
    return subprocess.run([sys.executable, "-c", NAME], capture_output=True, text=True, check=True).stdout.strip()


def test_only_a_process_of_this_machine_that_has_ended_is_gone(ended):
    boot, space, pid, started = process_name().split()
    assert not is_gone(process_name())
    assert is_gone(ended)
    # Another process has its number by now.
    assert is_gone(f"{boot} {space} {pid} {int(started) - 1}")
    # Of the first process of the system nothing is known but that it is there.
    assert not is_gone(f"{boot} {space} {os.getppid()} {predecessors._started(os.getppid())}")
    for elsewhere in (
        ended.replace(boot, "another"),
        ended.replace(space, "pid:[1]"),
        "",
        "not a name",
        f"{boot} {space} x y",
    ):
        assert not is_gone(elsewhere)


class Group:
    """A coordinator and its client, with members that have this worker's client id; what is sent to it."""

    def __init__(self, members, *, joined_within=60.0, error=None):
        self._client, self._client_id, self.coordinator_id, self.group_id = self, "me", 7, "group"
        self.generation, self.member_id = -1, ""
        self._members, self._joined_within, self._error = members, joined_within, error
        self.left = []

    async def ensure_coordinator_known(self):
        if self._error:
            raise self._error

    async def send(self, node, request):
        assert node == 7
        if isinstance(request, LeaveGroupRequest):
            assert self.member_id, "a group that this leaves empty would wait for more members"
            return self.left.append(request._member_id)
        members = [(name, client, "host", data, b"") for name, client, data in self._members]
        return SimpleNamespace(groups=[(0, "group", "Stable", "consumer", "roundrobin", members)])

    def remove(self, monkeypatch):
        monkeypatch.setattr(predecessors, "SILENT_SECONDS", 0.2)

        async def run():
            loop = asyncio.get_running_loop()
            loop.call_later(0.1, setattr, self, "member_id", "new")
            loop.call_later(0.1 + self._joined_within, setattr, self, "generation", 3)
            await predecessors.remove_predecessors(SimpleNamespace(_coordinator=self))
            return self.left

        return asyncio.run(run())


def said(name, monkeypatch):
    """What a member of that process says of itself."""
    monkeypatch.setattr(predecessors, "process_name", lambda: name)
    return NamingAssignor.metadata(["in"]).encode()


def test_a_member_whose_process_is_gone_is_removed_with_the_join(ended, monkeypatch, caplog):
    caplog.set_level("INFO")
    gone, here = said(ended, monkeypatch), said(process_name(), monkeypatch)
    members = [("old", "me", gone), ("other", "you", gone), ("twin", "me", here)]
    assert Group(members, joined_within=0.15).remove(monkeypatch) == ["old"]
    assert "has ended: removed from group" in caplog.text


@pytest.mark.parametrize("data", [b"", b"\0", None])
def test_a_member_that_lets_a_rebalance_pass_is_removed(data, monkeypatch, caplog):
    # A process of another machine; or the group is in a rebalance, in which the broker shows nothing of its members.
    data = said("elsewhere 1 2 3", monkeypatch) if data is None else data
    assert Group([("old", "me", data)]).remove(monkeypatch) == ["old"]
    assert "give each its own worker.id" in caplog.text
    assert Group([("old", "me", data)], joined_within=0.1).remove(monkeypatch) == []


def test_without_predecessors_or_an_answer_nothing_is_removed(monkeypatch, caplog):
    assert Group([("other", "you", b"")]).remove(monkeypatch) == []
    assert Group([("old", "me", b"")], error=KafkaConnectionError("away")).remove(monkeypatch) == []
    assert not caplog.text
