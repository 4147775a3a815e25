"""The members of a group as confluent-kafka's older call gives them."""

import struct
from types import SimpleNamespace

import pytest
from resonance.pipeline.kafka.groups import group_state


class Admin:
    """An admin client that knows some groups."""

    def __init__(self, *groups):
        self.groups = groups

    def list_groups(self, group, seconds):
        return [each for each in self.groups if each.id == group]


def group(assignment):
    member = SimpleNamespace(client_id="shop-1", client_host="/127.0.0.1", assignment=assignment)
    return SimpleNamespace(id="shop", state="Stable", members=[member])


def test_a_member_has_the_partitions_that_the_leader_gave_it():
    # Version, then topics with their partitions, then what is for the member's own use.
    orders = b"\0\6orders" + struct.pack(">iii", 2, 3, 0)
    returns = b"\0\7returns" + struct.pack(">ii", 1, 1)
    given = struct.pack(">hi", 1, 2) + orders + returns + struct.pack(">i", 8) + b"of Faust"
    found = group_state(Admin(group(given)), "shop", 1.0)
    assert found.state == "Stable"
    assert [(each.client, each.host) for each in found.members] == [("shop-1", "/127.0.0.1")]
    assert found.members[0].partitions == [("orders", 3), ("orders", 0), ("returns", 1)]


@pytest.mark.parametrize("given", [b"", b"\0", b"\0\1\0\0\0\7", b"\0\1\xff\xff\xff\xff"])
def test_what_is_no_assignment_has_no_partitions(given):
    assert group_state(Admin(group(given)), "shop", 1.0).members[0].partitions == []


def test_a_group_that_the_broker_does_not_list_is_none():
    assert group_state(Admin(), "shop", 1.0) is None
