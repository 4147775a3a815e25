"""The simulated group's static members do what Kafka's do (KIP-345)."""

import pytest
from confluent_kafka import KafkaError

from tests.simulation.group import Group, Who
from tests.simulation.logs import RefusedError
from tests.simulation.scheduler import Scheduler

PLACES = [("in", 0), ("in", 1)]


@pytest.fixture
def group():
    """A group in which the generation of two members stands; their ids are its `ids`."""
    sim = Scheduler(1)
    made = Group(sim, PLACES, session=3.0)
    made.ids = [made.join("", name) for name in ("one", "two")]
    sim.wait(0.1)
    assert [made.joined(*each)[0] for each in zip(made.ids, ("one", "two"), strict=True)] == [1, 1]
    return made


def refused(call, *args, **how):
    with pytest.raises(RefusedError) as caught:
        call(*args, **how)
    return caught.value.code


def test_a_process_that_starts_again_takes_its_members_place_in_the_generation_that_stands(group):
    owned = group.joined(group.ids[0], "one")
    again = group.join("", "one")
    assert again != group.ids[0]
    assert group.joined(again, "one") == owned
    group.heartbeat(Who(1, group.ids[1], "two"))
    group.heartbeat(Who(1, again, "one"))


@pytest.mark.parametrize("transactional", [True, False])
def test_who_was_replaced_is_fenced(group, transactional):
    group.join("", "one")
    old = Who(1, group.ids[0], "one")
    fenced = KafkaError.FENCED_INSTANCE_ID
    assert refused(group.check, old, transactional=transactional) == fenced
    assert refused(group.heartbeat, old) == fenced
    assert refused(group.join, *old[1:]) == fenced
    assert refused(group.joined, *old[1:]) == fenced
    assert refused(group.check, Who(instance="one"), transactional=transactional) == fenced
    # What it leaves, it has left.
    group.leave(old.member)
    group.heartbeat(Who(1, group.ids[1], "two"))


def test_in_a_rebalance_it_takes_the_place_of_the_one_that_is_waited_for(group):
    group.rebalance()
    waiting = group.join("", "one")
    assert group.joined(waiting, "one") is None
    assert group.clients() is None
    assert refused(group.heartbeat, Who(1, group.ids[1], "two")) == KafkaError.REBALANCE_IN_PROGRESS
    group.join(group.ids[1], "two")
    group.sim.wait(0.1)
    assert [group.joined(*each)[0] for each in ((waiting, "one"), (group.ids[1], "two"))] == [2, 2]
    assert group.clients() == ["two", "one"]


def test_who_was_silent_for_a_session_is_no_member(group):
    for _ in range(5):
        group.sim.wait(0.8)
        group.check(Who(1, group.ids[0], "one"), transactional=False).heard = group.sim.now
    assert refused(group.check, Who(1, group.ids[1], "two"), transactional=False) == KafkaError.UNKNOWN_MEMBER_ID
    assert refused(group.heartbeat, Who(1, group.ids[0], "one")) == KafkaError.REBALANCE_IN_PROGRESS
