"""Whatever stands behind the question mark, the page answers, or says what is allowed."""

import pytest
from resonance.pipeline.page.server import QUERIES

from tests.pipeline.page import outputs
from tests.pipeline.page.shop import opened
from tests.pipeline.page.test_access import raw

NASTY = (
    *("0", "1", "-1", "+1", "1.5", "1e3", "1_000", " 1", "0x10", "\u0663", "\u00b2", "nan", "inf", "true", "None"),
    *("9" * 16, "9" * 17, "9" * 400, "9" * 5000, "-" + "9" * 30, str(2**53), str(2**63), str(2**64)),
    *("x", "x" * 5000, "'", '"', "<script>", "\x00", "\n", "\r\nX: y", "%", "\\", "a,b,,", ",", "\ud7ff", "\U0010ffff"),
    *("stream-7", "stream-7/1/0", "/", "//", "/1/0", "stream-7/1/", "stream-7/1/0/1/2", "rate", "stream", "warning"),
    *("2026-01-05T08:00:00.000Z", "2026-01-05T08:00:00Z", "2026-13-05T08:00:00.000Z", "9999-12-31T23:59:59.999Z"),
)
BYTES = ("%ff", "%c3", "%ed%a0%80", "\xff", "%", "%zz", "%00", "a\tb", "[", "{", "|", "\u00e4")
PLACES = [(route, name) for route, parameters in QUERIES.items() for name in (*parameters, "unknown")]


async def ask(shop, session, route, query, **how):
    """Return the status of an answer; only the head of one that does not end."""
    async with shop.get(session, f"/api/{route}", params=query, **how) as answer:
        if answer.status == 200 and route == "live":
            return 200, {}
        return answer.status, await answer.json()


@pytest.mark.parametrize(("route", "name"), PLACES)
async def test_no_value_of_any_parameter_is_an_error_of_the_page(monkeypatch, route, name):
    async with opened() as (shop, session):
        monkeypatch.setattr(shop.follower, "stored", lambda stream: Past())
        shop.happen("events", outputs.event("emerged", "stream-7/1/1"))
        # Beside good ones, so that each is used.
        others = {"stream": {"name": "stream-7"}, "events": {"before": "1"}}.get(route, {})
        for value in NASTY:
            status, found = await ask(shop, session, route, {**others, name: value})
            assert status in (200, 400, 404), value[:40]
            assert status == 200 or found["error"]
            if status == 400:
                assert name in found["error"]
                assert any(word in found["error"] for word in ("must be ", "no such parameter; it ", "needs before"))
                assert len(found["error"]) < 400
        for value in BYTES:
            status, *_ = await raw(shop.port, f"/api/{route}?{name}={value}")
            assert status in (200, 400, 404), value


class Past:
    """A past that is like the present."""

    def at(self, moment, now):
        return now


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("overview?start=9999999999999999999", "start = '9999999999999999999': must be an integer from 0 to 9,007,"),
        ("overview?most=-1", "most = '-1': must be an integer from 0 to"),
        ("overview?order=size", "order = 'size': must be one of stream, rate, clusters, novelty, drift, alerts, last"),
        ("overview?serach=a", "'serach': this address has no such parameter; it can have search, order,"),
        ("events?most=0", "most = '0': must be an integer from 1 to"),
        ("events?before_time=x", "before_time = 'x': must be a time such as 2026-01-31T12:00:00.000Z"),
        ("events?before_time=2026-01-05T08:00:00.000Z", "before_time = 2026-01-05T08:00:00.000Z: needs before"),
        ("events?severity=info,bad", "severity = 'info,bad': must be info, warning, critical, with commas"),
        ("stream?name=stream-7&at=yesterday", "at = 'yesterday': must be an integer from -62,135,596,800,000 to"),
        (f"live?after={'9' * 5000}", "after = '9999"),
        ("operations?x=1", "'x': this address has no such parameter; it has none"),
    ],
)
async def test_what_cannot_be_used_is_said_with_what_is_allowed(address, text):
    async with opened() as (shop, session), shop.get(session, f"/api/{address}") as answer:
        assert answer.status == 400
        assert (await answer.json())["error"].startswith(text)


@pytest.mark.parametrize("value", ["x", "9" * 5000, "-1", "\u00b2"])
async def test_a_header_that_is_no_number_is_refused_as_the_parameter_is(value):
    async with opened() as (shop, session):
        status, found = await ask(shop, session, "live", {}, headers={"Last-Event-ID": value})
        assert (status, found["error"].startswith("after = ")) == (400, True)


async def test_an_error_of_the_page_is_its_own_and_is_logged(monkeypatch, caplog):
    """A ValueError inside an answer is no fault of who visits the page."""

    async with opened() as (shop, session):
        monkeypatch.setattr(shop.follower.view, "by_name", lambda: int("no number"))
        status, found = await ask(shop, session, "overview", {})
        assert (status, found) == (500, {"error": "the page failed; the log of `resonance page` says why"})
    assert "invalid literal for int() with base 10: 'no number'" in caplog.text


@pytest.mark.parametrize(
    "path", ["/%ff", "/static/%ff", "/api/%ed%a0%80", "/\xff", "/api/overview/", "/%00", "/static/..%2fserver.py"]
)
async def test_a_path_that_is_none_is_not_there(path):
    async with opened() as (shop, _):
        assert (await raw(shop.port, path))[0] in (400, 404)
