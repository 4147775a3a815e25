"""Requests of the transactional producer that are lost, repeated, and reach the broker after all, when it is too late.

Beside them, requests to coordinators that are moving or loading.

The short form runs at night: every request, lost before or behind the broker, and delivered at every moment. The long
form (1,000 lost requests, a quarter of an hour) is ``make long WHAT=tests/integration/test_late_requests.py``.
"""

import random
from itertools import cycle, islice, product

import pytest
from confluent_kafka import KafkaError
from faust.types import TP
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.worker.delivery import exactly_once as exactly_once_module

from tests import LONG
from tests.brokers import create_topic
from tests.brokers.proxy import ADD_OFFSETS, COMMIT_OFFSETS, END
from tests.integration.test_delivery import Member, columns, exactly_once, messages, values
from tests.night import at_night

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def begun(proxied):
    """A broker, the proxy before it, a topic, a member of a group, and the delivery of that by way of the proxy."""
    direct, proxy = proxied
    topic = create_topic(direct, "late", partitions=2)
    member = Member(direct, topic)
    delivery = exactly_once(f"127.0.0.1:{proxy.port}", member.group)
    delivery.bind(member.membership)
    yield direct, proxy, topic, member, delivery
    member.consumer.close()


def error(api, answer):
    """The error code of an answer for one partition; behind it stand three empty lists of fields."""
    return int.from_bytes(answer[-5:-3] if api == COMMIT_OFFSETS else answer[12:14], "big")


@pytest.mark.nightly
def test_a_late_request_never_touches_the_next_transaction(begun):
    direct, proxy, topic, member, delivery = begun
    kinds = list(product((ADD_OFFSETS, END, COMMIT_OFFSETS), (False, True), ("between", "begun", "ending")))
    random.Random(1).shuffle(kinds)
    offset, answers = 0, list[bytes]()

    def commit(*values):
        nonlocal offset
        delivery.send(Batch(topic, 0, messages(*values)))
        offset += 1
        delivery.commit({TP(topic, 0): offset}, {})
        assert member.committed(topic)[0] == offset

    def deliver():
        answers.extend(proxy.deliver())

    for number, (api, answered, moment) in enumerate(islice(cycle(kinds), 1000 if LONG else len(kinds))):
        proxy.lose(api, answered=answered)
        commit(b"lost in %d" % number)
        if moment == "between":
            proxy.deliver()
        delivery.send(Batch(topic, 0, messages(b"first in %d" % number)))
        delivery._outlet.producer.flush(30)
        if moment == "begun":
            deliver()
        if moment == "ending":
            proxy.before(END, deliver)
        commit(b"last in %d" % number)
        assert [error(api, answer) > 0 for answer in answers] == [True] * (moment != "between"), (api, moment)
        answers.clear()
    assert values(direct, topic) == [
        (0, b"%s in %d" % (which, n)) for n in range(number + 1) for which in (b"lost", b"first", b"last")
    ]


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (COMMIT_OFFSETS, KafkaError.NOT_COORDINATOR),
        at_night(COMMIT_OFFSETS, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        (END, KafkaError.NOT_COORDINATOR),
    ],
)
def test_a_coordinator_that_moves_or_loads_is_waited_for(begun, api, code):
    direct, proxy, topic, member, delivery = begun
    delivery.send(Batch(topic, 0, messages(b"a")))
    no_time, refused = bytes(4), code.to_bytes(2, "big")
    if api == COMMIT_OFFSETS:
        name = bytes([len(topic) + 1]) + topic.encode()
        body = b"\0" + no_time + b"\2" + name + b"\2" + bytes(4) + refused + bytes(3)
    else:
        body = no_time + refused
    # The client asks again after half a second: for longer than another call of the delivery waits.
    proxy.answer(api, *[body] * 6)
    delivery.commit({TP(topic, 0): 1}, {})
    assert member.committed(topic)[0] == 1
    assert values(direct, topic) == [(0, b"a")]


def test_offsets_that_are_never_answered_are_sent_again_with_everything_before_them(begun, monkeypatch):
    monkeypatch.setattr(exactly_once_module, "OFFSETS_SECONDS", 1.0)
    direct, proxy, topic, member, delivery = begun
    delivery.send(Batch(topic, 0, messages(b"a")))
    delivery.send(Batch(topic, 1, columns(b"b")))
    proxy.answer(COMMIT_OFFSETS, b"", b"")
    delivery.commit({TP(topic, 0): 1}, {})
    assert [error(COMMIT_OFFSETS, answer) > 0 for answer in proxy.deliver()] == [True, True]
    assert member.committed(topic)[0] == 1
    assert values(direct, topic) == [(0, b"a"), (1, b"b")]


def test_a_transaction_that_was_not_kept_fails_and_is_aborted(begun, monkeypatch):
    monkeypatch.setattr(exactly_once_module, "OFFSETS_SECONDS", 1.0)
    direct, proxy, topic, member, delivery = begun
    delivery._kept_bytes = 1
    delivery.send(Batch(topic, 0, messages(b"a")))
    delivery.send(Batch(topic, 0, iter(messages(b"b"))))
    proxy.answer(COMMIT_OFFSETS, b"")
    with pytest.raises(DeliveryError, match=r"the offsets of the transaction: no answer within 1 s; nothing of it"):
        delivery.commit({TP(topic, 0): 1}, {})
    again = exactly_once(f"127.0.0.1:{proxy.port}", member.group, delivery._id)
    again.bind(member.membership)
    proxy.deliver()
    again.send(Batch(topic, 0, messages(b"c")))
    again.commit({TP(topic, 0): 1}, {})
    assert values(direct, topic) == [(0, b"c")]
