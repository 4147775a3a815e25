"""An alert is sent until it is taken, in order, and is left out only where others are taken."""

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import aiohttp
import pytest
from resonance.pipeline.forward import delivery as sending
from resonance.pipeline.forward.consumer import WaitingNotice
from resonance.pipeline.forward.delivery import AlertDelivery
from resonance.pipeline.forward.receivers import receiver
from resonance.pipeline.forward.run import readiness

from tests.brokers.jvm import free_port
from tests.pipeline.forward.inbox import notice, opened

KEY = "e93facc04764012d7bfb002500d5d1a6"


class Scene:
    """Alerts that wait for an inbox, and a clock that the test moves."""

    def __init__(self, alerts, url, token=""):
        waiting = [WaitingNotice(("shop.alerts", 0), offset, each) for offset, each in enumerate(alerts)]
        self.consumer = SimpleNamespace(waiting=waiting, joined=True, trouble="", open={})
        self.receiver = receiver(url, token, "shop")
        self.now = 0.0
        self.delivery = None

    def open(self, *alerts):
        waiting = [WaitingNotice(("shop.alerts", 0), offset, each) for offset, each in enumerate(alerts)]
        self.consumer.open = {("shop.alerts", 0): {each.notice.place: each for each in waiting}}

    async def attempts(self, count=1, after=60.0):
        """Let the delivery run some times."""
        async with aiohttp.ClientSession() as session:
            self.delivery = self.delivery or AlertDelivery(self.receiver, session, lambda: self.now)
            self.delivery._session = session
            for _ in range(count):
                await self.delivery.run(self.consumer)
                self.now += after

    def run(self, count=1, after=60.0):
        asyncio.run(self.attempts(count, after))
        return readiness((self.consumer, self.delivery))


def numbers(inbox):
    return [int(key.split("d", 3)[-1].split("/")[0]) for key, _ in inbox.found()]


@pytest.mark.parametrize("enqueue", [False, True])
def test_all_are_sent_in_order(enqueue):
    with opened() as inbox:
        scene = Scene([notice(0), notice(1), notice(0, "cleared")], inbox.url + "/v2/enqueue" * enqueue, KEY)
        assert scene.run() == {
            **{"ready": True, "problems": [], "partitions": 0, "waiting": 0, "sent": 3, "refused": 0},
        }
        assert [is_open for _, is_open in inbox.found()] == [True, True, False]
        posts = [each for each in inbox.requests if each]
        assert len(posts) == (3 if enqueue else 1)
        assert ("Authorization" in inbox.headers) is not enqueue


def test_a_receiver_that_is_away_is_tried_again_at_growing_distances(caplog):
    caplog.set_level(logging.INFO)
    port = free_port()
    scene = Scene([notice(n) for n in range(3)], f"http://127.0.0.1:{port}")
    shown = scene.run(600, after=1.0)
    assert (shown["ready"], shown["waiting"]) == (False, 3)
    assert shown["problems"][0].startswith(f"http://127.0.0.1:{port}/api/v2/alerts takes no alerts: Cannot connect")
    assert scene.delivery._pause == 60.0
    with opened(port) as inbox:
        assert scene.run(61, after=1.0)["ready"]
        assert numbers(inbox) == [0, 1, 2]
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 429, 500, 503])
def test_what_says_nothing_of_an_alert_loses_none(status):
    with opened() as inbox:
        inbox.answer = lambda _: (status, {"Location": inbox.url})
        scene = Scene([notice(0), notice(1)], inbox.url)
        shown = scene.run(3)
        assert (shown["waiting"], shown["refused"], f"HTTP status {status}" in shown["problems"][0]) == (2, 0, True)
        inbox.answer = lambda _: (200, {})
        assert scene.run(3)["sent"] == 2


@pytest.mark.parametrize("form", ["120", "a date"])
def test_a_receiver_chooses_the_pause(form):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=121), usegmt=True)
    with opened() as inbox:
        inbox.answer = lambda _: (429, {"Retry-After": date if form == "a date" else form})
        scene = Scene([notice()], inbox.url)
        scene.run(110, after=1.0)
        assert len(inbox.requests) == 1
        scene.run(20, after=1.0)
        assert len(inbox.requests) == 2
    assert [sending._seconds(text) for text in ("", "soon", "-5", "\u00b2")] == [0.0] * 4


@pytest.mark.parametrize("enqueue", [False, True])
def test_an_alert_that_is_never_taken_is_left_out_with_an_error_in_the_log(caplog, enqueue):
    with opened() as inbox:
        inbox.answer = lambda content: (400 if "d2/" in str(content) else 200, {})
        scene = Scene([notice(n) for n in range(5)], inbox.url + "/v2/enqueue" * enqueue, KEY)
        shown = scene.run()
        assert (shown["waiting"], shown["sent"], shown["refused"], shown["ready"]) == (0, 4, 1, True)
        assert sorted({*numbers(inbox)}) == [0, 1, 3, 4]
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert line.startswith("alert shop/unlike/p0:d2/1/0 (opened) is left out, because http://127.0.0.1")


def test_where_all_are_refused_the_url_or_the_token_is_wrong_and_all_wait():
    with opened() as inbox:
        inbox.answer = lambda _: (400, {})
        scene = Scene([notice(0), notice(1)], f"{inbox.url}/v2/enqueue", KEY)
        shown = scene.run(5)
        assert (shown["waiting"], shown["refused"], shown["ready"]) == (2, 0, False)
        inbox.answer = lambda content: (400 if "d0/" in content["dedup_key"] else 202, {})
        shown = scene.run(2)
        assert (shown["waiting"], shown["sent"], shown["refused"], shown["ready"]) == (0, 1, 1, True)


def test_a_slow_receiver_does_not_hold_up_the_polls(monkeypatch):
    monkeypatch.setattr(sending, "REQUEST_SECONDS", 0.2)
    with opened() as inbox:
        inbox.seconds = 0.6
        scene = Scene([notice()], inbox.url)
        began = time.monotonic()
        shown = scene.run()
        assert time.monotonic() - began < 0.5
        assert "no answer within 0.2 s" in shown["problems"][0]
        time.sleep(0.6)
        inbox.seconds = 0.0
        assert scene.run()["sent"] == 1
        # It had taken the alert, which comes again with the same labels.
        assert len({key for key, _ in inbox.found()}) == 1


def test_an_alertmanager_hears_of_open_alerts_again_and_pagerduty_does_not():
    with opened() as inbox:
        scene = Scene([], inbox.url)
        scene.open(notice(7))
        scene.run(10, after=30.0)
        assert numbers(inbox) == [7] * 5
        inbox.taken.clear()
        scene = Scene([], f"{inbox.url}/v2/enqueue", KEY)
        scene.open(notice(7))
        scene.run(10, after=30.0)
        assert inbox.taken == []


def test_no_secret_is_shown(caplog):
    with opened() as inbox:
        inbox.answer = lambda _: (403, {})
        scene = Scene([notice()], f"{inbox.url}/?key=hunter2", "hunter3")
        shown = scene.run(2)
        assert inbox.headers["Authorization"] == "Bearer hunter3"
    shown = f"{shown} {scene.run(2)} {caplog.text}"
    assert "Cannot connect" in shown
    assert "hunter" not in shown
