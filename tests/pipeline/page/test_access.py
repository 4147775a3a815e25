"""Who may see the page."""

import asyncio

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.page.run import serve
from resonance.pipeline.page.server import PAGES, check_exposure

from tests.pipeline.page.shop import SETTINGS, opened

TOKEN = "a secret/+%"  # noqa: S105


async def test_with_a_token_every_request_needs_it():
    async with opened(TOKEN) as (shop, session):
        for path in (*PAGES, "/static/app.js", "/api/overview", "/api/live", "/nowhere", "/?token=wrong", "/?token="):
            async with shop.get(session, path) as answer:
                assert answer.status == 401, path
                assert "token=TOKEN" in await answer.text()
        for given, status in ((f"Bearer {TOKEN}", 200), (TOKEN, 401), (f"Basic {TOKEN}", 401), ("Bearer \u00ff", 401)):
            async with shop.get(session, "/api/overview", headers={"Authorization": given}) as answer:
                assert answer.status == status


@pytest.mark.parametrize(("proxy", "secure"), [({}, False), ({"X-Forwarded-Proto": "https"}, True)])
async def test_a_cookie_takes_the_place_of_the_token_in_the_address(proxy, secure):
    async with opened(TOKEN) as (shop, session):
        opening = {"token": TOKEN, "name": "p0&a=b", "at": "5"}
        async with shop.get(session, "/stream", params=opening, headers=proxy, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/stream?name=p0%26a%3Db&at=5")
            cookie = answer.headers["Set-Cookie"]
        name, _, value = cookie.partition(";")[0].partition("=")
        assert "HttpOnly; Path=/; SameSite=Strict" in cookie
        assert ("Secure" in cookie) == secure
        assert "secret" not in cookie
        for given, status in ((value, 200), (TOKEN, 401), ("", 401), (value[:-1], 401)):
            assert await raw(shop.port, "/api/overview", more=f'Cookie: {name}="{given}"\r\n') == (status,)
        # Pages on other ports have cookies of their own, and another token ends it.
        assert await raw(shop.port, "/api/overview", more=f"Cookie: {name}0={value}\r\n") == (401,)
    async with opened("another") as (shop, _):
        more = f"Cookie: resonance_page_{shop.port}={value}\r\n"
        assert await raw(shop.port, "/api/overview", more=more) == (401,)


async def raw(port, target, host="127.0.0.1", more=""):
    """Send a request with a path that clients would change; return status and place of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode("latin-1"))
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).decode("latin-1")
    writer.close()
    places = [line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith("location")]
    return int(head.split()[1]), *places


@pytest.mark.parametrize(
    "target",
    [
        *("//evil.example/", "///evil.example", "/%2Fevil.example/", "/\\evil.example/", "/%5cevil.example"),
        *(
            "/.//evil.example",
            "//evil.example/stream",
            "/stream//evil.example",
            "/@evil.example",
            "//evil.example/%2e%2e",
        ),
        *("http://evil.example/", "http://evil.example/stream", "/\t/evil.example", "https:evil.example"),
    ],
)
async def test_the_right_token_leads_nowhere_but_to_a_page(target):
    async with opened("T") as (shop, _):
        for more in ("?token=T", "?token=T&x=//evil.example", "?x=y&token=T#//evil.example"):
            _, *places = await raw(shop.port, target + more)
            assert {place.partition("?")[0] for place in places} <= set(PAGES)
            assert "T" not in "".join(places)


# More of them are in http/test_pages.py: it is the same function.
@pytest.mark.parametrize(
    ("host", "status"), [("localhost:80", 200), ("evil.example", 403), ("localhost:99999", 403), ("\xff", 403)]
)
async def test_without_a_token_only_names_of_this_machine_are_answered(host, status):
    async with opened() as (shop, _):
        for path in ("/", "/api/overview", "/static/app.js"):
            assert (await raw(shop.port, path, host))[0] in (status, 400 if status == 403 else status)


async def test_pages_of_other_sites_link_here_and_start_no_work():
    async with opened() as (shop, _):
        for path, status in (("/", 200), ("/stream?name=p0", 200), ("/api/overview", 403), ("/api/live", 403)):
            assert await raw(shop.port, path, more="Sec-Fetch-Site: cross-site\r\n") == (status,)


def test_beyond_this_machine_it_needs_a_token_of_its_own():
    """Health and metrics show no record, the page shows ids and places: what opens the workers' does not open it."""
    host = "192.0.2.1"
    for opened_workers in ({}, {"worker.web_open": True}, {"worker.web_token": TOKEN}):
        with pytest.raises(ConfigurationError, match=rf"--host = {host}: .* see the page, .* RESONANCE_PAGE__TOKEN"):
            asyncio.run(serve(Settings.of(SETTINGS | opened_workers), host, 6060, print))
    check_exposure(TOKEN, host)


def test_a_worker_with_a_log_in_in_its_address_is_refused_unseen():
    with pytest.raises(ConfigurationError, match=r"^--worker worker-1:6066: write it as"):
        asyncio.run(serve(Settings.of(SETTINGS), "127.0.0.1", 6060, print, ["http://me:secret@worker-1:6066"]))
