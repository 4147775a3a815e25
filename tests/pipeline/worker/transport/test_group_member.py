"""A worker as a member of its group, without a broker: how it leaves, and the topics that it waits for."""

import asyncio
from types import SimpleNamespace

from aiokafka.cluster import ClusterMetadata
from resonance.pipeline.worker.transport import group_member


def test_a_member_that_waits_for_a_join_leaves_at_once_and_does_not_join_again():
    async def leave(member, later=""):
        sent, joining = [], asyncio.create_task(asyncio.sleep(60))
        answered = SimpleNamespace(send=lambda *request: asyncio.sleep(0, sent.append(request)))
        coordinator = SimpleNamespace(
            group_id="group",
            member_id=member,
            _performed_join_prepare=bool(later),
            coordinator_id=7,
            reset_generation=lambda: None,
            _coordination_task=joining,
            _client=answered,
        )
        consumer = SimpleNamespace(_coordinator=coordinator)
        if later:
            asyncio.get_running_loop().call_later(0.05, setattr, coordinator, "member_id", later)
        await group_member.leave_group(consumer)
        await asyncio.sleep(0)
        was_joining = not joining.cancelled()
        joining.cancel()
        return sent, was_joining

    ((node, request),), was_joining = asyncio.run(leave("me"))
    # Not over the connection on which the broker answers the join first.
    assert (node, vars(request), was_joining) == (7, {"_group": "group", "_member_id": "me"}, False)
    assert asyncio.run(leave("")) == ([], False)
    # One that has just begun to join.
    ((_, request),), _ = asyncio.run(leave("", "new"))
    assert request._member_id == "new"


def described(*topics):
    """What aiokafka knows after an answer in which a broker describes these topics, of ``in`` and ``routes``."""
    unknown = [(3, topic, False, []) for topic in ("in", "routes") if topic not in topics]
    known = [(0, topic, False, [(0, 0, 1, [1], [1]), (0, 1, 1, [1], [1])]) for topic in topics]
    return SimpleNamespace(API_VERSION=1, brokers=[(1, "b", 9092, None)], controller_id=1, topics=[*known, *unknown])


def test_topics_that_a_broker_did_not_describe_are_requested_until_it_does(monkeypatch):
    monkeypatch.setattr(group_member.WATCH, "refusal", lambda: None)
    cluster, requests = ClusterMetadata(), []
    client = SimpleNamespace(cluster=cluster, force_metadata_update=lambda: requests.append(1))
    joining = SimpleNamespace(cancelled=lambda: False)
    coordinator = SimpleNamespace(generation=3, check_errors=lambda: None, _client=client, _coordination_task=joining)
    consumer = SimpleNamespace(
        _coordinator=coordinator, _client=client, subscription=lambda: frozenset({"in", "routes"})
    )
    for topics, missing in (((), ["in", "routes"]), (("in",), ["routes"]), (("in", "routes"), [])):
        cluster.update_metadata(described(*topics))
        requests.clear()
        asyncio.run(group_member.check_coordinator(consumer))
        assert (group_member.missing_topics(consumer), bool(requests)) == (missing, bool(missing))
    # Before its first join a member knows nothing yet.
    cluster.update_metadata(described())
    coordinator.generation = -1
    assert group_member.missing_topics(consumer) == []


def test_topics_that_go_while_another_thread_looks_for_missing_ones_are_no_error():
    class Replaced(ClusterMetadata):
        looks = 0

        @property
        def _partitions(self):
            self.looks += 1
            return {"in": {0: None}} if self.looks == 1 else {}

        @_partitions.setter
        def _partitions(self, _):
            pass

    coordinator = SimpleNamespace(generation=3)
    client = SimpleNamespace(cluster=Replaced())
    consumer = SimpleNamespace(_coordinator=coordinator, _client=client, subscription=lambda: frozenset({"in"}))
    assert group_member.missing_topics(consumer) == []
