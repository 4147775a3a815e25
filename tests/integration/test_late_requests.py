"""Requests of the transactional producer that are lost, repeated, and reach the broker after all, when it is too late.

The short form runs with all tests: every request, lost before or behind the broker, and delivered at every moment. The
long form (1,000 lost requests, about ten minutes) belongs to ``make kill``.
"""

import os
import random
from itertools import cycle, islice, product

import pytest
from faust.types import TP
from resonance.pipeline.kafka.producer import Batch

from tests.brokers import NoBrokerError, create_topic, required
from tests.brokers.proxy import ADD_OFFSETS, COMMIT_OFFSETS, END, proxied_broker
from tests.integration.test_delivery import Member, exactly_once, messages, values

LONG = os.environ.get("RESONANCE_KILL_TEST") == "long"

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def proxied():
    try:
        with proxied_broker() as both:
            yield both
    except NoBrokerError as reason:
        if required():
            raise
        pytest.skip(str(reason))


def error(api, answer):
    """The error code of an answer for one partition; behind it stand three empty lists of fields."""
    return int.from_bytes(answer[-5:-3] if api == COMMIT_OFFSETS else answer[12:14], "big")


def test_a_late_request_never_touches_the_next_transaction(proxied):
    direct, proxy = proxied
    topic = create_topic(direct, "late", partitions=2)
    member = Member(direct, topic)
    delivery = exactly_once(f"127.0.0.1:{proxy.port}", member.group)
    delivery.bind(member.membership)
    kinds = list(product((ADD_OFFSETS, END, COMMIT_OFFSETS), (False, True), ("between", "begun", "ending")))
    random.Random(1).shuffle(kinds)
    offset, answers = 0, list[bytes]()

    def commit(*values):
        nonlocal offset
        delivery.send(Batch(topic, 0, messages(*values)))
        offset += 1
        delivery.commit({TP(topic, 0): offset})
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
    member.consumer.close()
    assert values(direct, topic) == [
        (0, b"%s in %d" % (which, n)) for n in range(number + 1) for which in (b"lost", b"first", b"last")
    ]
