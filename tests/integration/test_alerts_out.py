"""Alerts on a real broker get out: none is lost, whatever ends meanwhile, and one that comes twice has one key."""

import asyncio
import json

import aiohttp
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.forward import consumer as consuming
from resonance.pipeline.forward.consumer import AlertConsumer
from resonance.pipeline.forward.delivery import AlertDelivery
from resonance.pipeline.forward.receivers import receiver

from tests.brokers import create_topic, produce, topic_name
from tests.brokers.jvm import free_port
from tests.integration.workers import SESSION_SECONDS, WorkerProcess, wait_until
from tests.pipeline.forward.inbox import alert, opened

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

KEY = "e93facc04764012d7bfb002500d5d1a6"

MAX_POLL_SECONDS = 6.0
"""In place of five minutes; the first start of a group on a new broker takes seconds."""


class Alerts:
    """The topic of the alerts of a deployment, and what sends them."""

    def __init__(self, broker):
        self.name, self.broker = topic_name("alerts-out"), broker
        self.topic = create_topic(broker, f"{self.name}.alerts", partitions=2, exact=True)
        self.settings = {**{"name": self.name, "broker.bootstrap": broker}, "broker.session_timeout": SESSION_SECONDS}

    def write(self, *alerts):
        records = [(each["cause"]["source"]["partition"], each["key"].encode(), json.dumps(each)) for each in alerts]
        produce(self.broker, self.topic, records)

    def sending(self, url):
        port = free_port()
        return WorkerProcess(
            {**self.settings, "worker.web_port": port},
            command=("resonance.pipeline.cli.main", "alerts"),
            arguments=("--to", url, "--port", str(port)),
            environment={"RESONANCE_ALERTS__TOKEN": KEY},
            forked=True,
        )


def both(numbers, name):
    return [alert(n, kind, name) for n in numbers for kind in ("opened", "cleared")]


def keys(alerts):
    return [(each["key"], each["kind"] == "opened") for each in alerts]


def test_a_new_group_begins_with_what_is_open_and_a_killed_one_goes_on_where_it_was(broker):
    bus = Alerts(broker)
    bus.write(*both(range(4), bus.name), alert(4, "opened", bus.name))
    later = both(range(10, 50), bus.name)
    with opened() as inbox:
        with bus.sending(f"{inbox.url}/v2/enqueue") as process:
            process.wait_for(lambda page: page["ready"] and page["sent"] == 1)
            # No more than this was open.
            assert inbox.found() == keys([alert(4, "opened", bus.name)])
            inbox.seconds = 0.02
            bus.write(*later)
            wait_until(lambda: len(inbox.taken) > 20)
            process.kill()
        # What was being sent when it died.
        count = len(inbox.taken)
        assert count < len(later)
        bus.write(alert(4, "cleared", bus.name))
        with bus.sending(f"{inbox.url}/v2/enqueue") as process:
            expected = {*keys(later), *keys([alert(4, "opened", bus.name), alert(4, "cleared", bus.name)])}
            wait_until(lambda: {*inbox.found()} == expected)
            process.wait_for(lambda page: page["ready"] and not page["waiting"])
            assert process.terminate() == 0
        # An alert is cleared at last, whatever came twice.
        assert set(dict(inbox.found()).values()) == {False}
        assert KEY not in process.log()
        done = len(inbox.taken)
        with bus.sending(f"{inbox.url}/v2/enqueue") as process:
            process.wait_for(lambda page: page["ready"])
            assert process.terminate() == 0
        assert len(inbox.taken) == done


def test_a_receiver_that_is_away_longer_than_the_group_waits_for_a_poll_gets_all_of_one_member(broker, monkeypatch):
    monkeypatch.setattr(consuming, "MAX_POLL_SECONDS", MAX_POLL_SECONDS)
    monkeypatch.setattr(consuming, "WAITING", 30)
    bus, port = Alerts(broker), free_port()
    assigned = []
    monkeypatch.setattr(
        AlertConsumer,
        "_assigned",
        lambda self, *given, own=AlertConsumer._assigned: (assigned.append(1), own(self, *given)),
    )

    async def go():
        settings = Settings.of({**bus.settings, "input.topics": ["any"]})
        consumer = AlertConsumer(settings, f"{bus.name}-out")
        loop = asyncio.get_running_loop()

        async def run(until, seconds):
            end = loop.time() + seconds
            while not until():
                assert loop.time() < end
                await asyncio.to_thread(consumer.poll, 0.1)
                await delivery.run(consumer)
                await asyncio.to_thread(consumer.commit)

        async with aiohttp.ClientSession() as session:
            delivery = AlertDelivery(receiver(f"http://127.0.0.1:{port}", "", bus.name), session)
            try:
                await run(lambda: consumer.joined, 30)
                bus.write(*both(range(100), bus.name))
                away = loop.time() + 1.5 * MAX_POLL_SECONDS
                await run(lambda: loop.time() > away, 60)
                assert (delivery.sent, len(consumer.waiting), len(assigned)) == (0, 30, 1)
                # Another member takes a partition, and gives it back.
                other = AlertConsumer(settings, f"{bus.name}-out")
                await run(lambda: other.poll(0.1) or len(other.open) == 1, 30)
                other.close()
                await run(lambda: len(consumer.open) == 2 and len(consumer.waiting) == 30, 30)
                with opened(port) as inbox:
                    delivery._next = 0.0
                    await run(lambda: delivery.sent == 200 and not consumer.waiting, 60)
                    return inbox.found()
            finally:
                await asyncio.to_thread(consumer.close)

    found = asyncio.run(go())
    assert sorted(found) == sorted(keys(both(range(100), bus.name)))


def test_messages_that_no_worker_wrote_are_left_out_and_members_share_the_partitions(broker):
    bus = Alerts(broker)
    with opened() as inbox, bus.sending(inbox.url) as one, bus.sending(inbox.url) as other:
        for process in (one, other):
            process.wait_for(lambda page: page["ready"] and page["partitions"] == 1)
        produce(broker, bus.topic, [(0, b"k", value) for value in (b"{", b"null", b'{"kind": "opened"}')])
        bus.write(*[alert(n, "opened", bus.name) for n in range(20)])
        wait_until(lambda: len({*inbox.found()}) == 20)
        assert one.terminate() == other.terminate() == 0
        assert (one.log() + other.log()).count("is no message of Resonance") == 3
