"""Serves the page: its files, what they show as JSON, and what happens as server-sent events."""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web
from resonance.pipeline.config.messages import variable
from resonance.pipeline.errors import BrokerError, ConfigurationError, system_reason
from resonance.pipeline.page import answers, query
from resonance.pipeline.page.follower import Follower
from resonance.pipeline.page.operations import Operations
from resonance.pipeline.page.query import Parameter
from resonance.pipeline.page.view import DeploymentView
from resonance.pipeline.worker.http.page_client import is_same, raw
from resonance.pipeline.worker.http.pages import RUNNER, foreign_host, is_loopback, json_response, listen

PAGES: Final = ("/", "/stream", "/cluster", "/incident", "/events", "/operations")
"""Addresses that show the page; what they are about stands behind the question mark."""

SETTING: Final = "page.token"


def check_exposure(token: str, host: str) -> None:
    """Raise `ConfigurationError` where others than this machine could see the page without a token."""
    if not (token or is_loopback(host)):
        raise ConfigurationError(
            f"--host = {host}: others than this machine could see the page, ids and places of records included; set "
            f"{variable(SETTING)} to a secret ({SETTING}), or leave --host out"
        )


class Access:
    """Lets requests pass that may see the page.

    With a `token` every request needs it: as ``Authorization: Bearer``, or once in the address of a page, which a
    cookie then replaces. Without one only requests that name this machine pass, so that no page of the web can have a
    name of its own lead here.
    """

    def __init__(self, token: str, host: str, port: int) -> None:
        self._token = token
        self._host = host
        # Browsers have one set of cookies for all ports of a host.
        self._name = f"resonance_page_{port}"
        # The token cannot be learned from it, and with another token it is no longer valid.
        self._cookie = hmac.digest(raw(token), b"cookie of the page", "sha256").hex() if token else ""

    def answer(self, request: web.Request) -> web.Response | None:
        """Return the response where the page itself is none: a refusal, or the move to an address without the token."""
        if not self._token:
            error = foreign_host(request, self._host)
            if error is None and request.path not in PAGES and request.headers.get("Sec-Fetch-Site") == "cross-site":
                # It could not read the answer, and would have the work done.
                error = "the page answers no page of another site"
            return None if error is None else json_response({"error": error}, 403)
        is_page = request.path in PAGES
        if is_page and (given := request.query.get("token")) is not None:
            return self._moved(request) if is_same(given, self._token) else self._refused()
        known = is_same(request.headers.get("Authorization", ""), f"Bearer {self._token}")
        return None if known or is_same(request.cookies.get(self._name, ""), self._cookie) else self._refused()

    def _moved(self, request: web.Request) -> web.Response:
        query = request.rel_url.without_query_params("token").raw_query_string
        # One of our own paths: what a request has as its path can be read as the name of another host.
        moved = web.Response(status=303, headers={"Location": f"{request.path}?{query}" if query else request.path})
        # The proxy that has the certificate may be another program.
        secure = request.secure or request.headers.get("X-Forwarded-Proto", "").lower() == "https"
        moved.set_cookie(self._name, self._cookie, httponly=True, samesite="Strict", secure=secure, path="/")
        return moved

    def _refused(self) -> web.Response:
        text = f"this page needs its token ({SETTING}): open it once with ?token=TOKEN behind its address"
        return json_response({"error": text}, 401, {"WWW-Authenticate": "Bearer"})


STATIC: Final = Path(__file__).parent / "static"
"""The built files."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # A file of before is shown again only if it is still the same.
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}

MOST_TABS: Final = 100
"""Tabs that are kept up to date at the same time."""

WAITING: Final = 200
"""Messages that may wait for a slow tab before it is let go; it comes back and gets what it missed."""

MISSED: Final = 500
"""Most entries that a tab gets when it comes back."""

TICK_SECONDS: Final = 1.0
ASK_SECONDS: Final = 5.0
"""Seconds between two questions to the broker for how many records wait, while a tab is open."""


QUERIES: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "overview": {
        "search": query.text(),
        "order": query.choice("rate", answers.ORDERS),
        "ascending": query.choice("0", ("0", "1")),
        "start": query.number(0),
        "most": query.number(50),
    },
    "stream": {"name": query.text(), "at": query.moment()},
    "cluster": {"id": query.text()},
    "incident": {"key": query.text()},
    "events": {
        "kind": query.several(),
        "severity": query.several(("info", "warning", "critical")),
        "stream": query.text(),
        "search": query.text(),
        "most": query.number(100, 1),
        "before": query.number(None),
        "before_time": query.time_text(),
    },
    "live": {"after": query.number(None)},
    "operations": {},
}
"""Parameters of what is below ``/api/``."""

_log = logging.getLogger(__name__)

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")

Tab = asyncio.Queue[tuple[int, bytes] | None]
"""Messages that wait for a tab, each with the number of its entry or 0; None ends it."""


class PageServer:
    """Serves what a follower has read, with a `token` to those who have it; see `Access`."""

    def __init__(self, follower: Follower, operations: Operations, token: str = "") -> None:
        self._follower = follower
        self._deployment = follower.view.name
        self._operations = operations
        self._token = token
        self._access: Access
        self._past = asyncio.Lock()
        """Held while a past is read: one thread waits for the broker, and the others answer."""
        self._tabs: set[Tab] = set()
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: int | None = None
        """Records without an answer, where the broker says so."""

    async def start(self, host: str, port: int) -> None:
        """Begin to serve; raise `ConfigurationError` where the port is taken or there is no such address."""
        self._access = Access(self._token, host, port)
        app = web.Application(client_max_size=1024, middlewares=[self._guarded])
        for path in PAGES:
            app.router.add_get(path, self._index)
        app.router.add_static("/static", STATIC)
        for name, answer in (
            ("overview", self._overview),
            ("stream", self._stream),
            ("cluster", self._cluster),
            ("incident", self._incident),
            ("events", self._events),
            ("operations", self._operations_page),
            ("live", self._live),
        ):
            app.router.add_get(f"/api/{name}", answer)
        self._runner = web.AppRunner(app, **RUNNER)
        try:
            await listen(self._runner, host, port)
        except OSError as error:
            raise ConfigurationError(
                f"the page cannot be served on {host}:{port} ({system_reason(error)}); another one may be open there: "
                "give this one its own --port, and --host an address of this machine"
            ) from error
        self._tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._ask())]

    async def stop(self) -> None:
        """Close the port."""
        for task in self._tasks:
            task.cancel()
        for tab in self._tabs:
            _end(tab)
        if self._runner is not None:
            await self._runner.cleanup()

    def publish(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Send entries to every tab; called in the event loop."""
        for entry in entries:
            self._send(_message("entry", entry, entry["number"]), entry["number"])

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Answer) -> web.StreamResponse:
        response: web.StreamResponse | None = self._access.answer(request)
        if response is None:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                text = f"there is no page {query.shown(request.path)} ({error.reason})"
                response = json_response({"error": text}, error.status)
            except query.QueryError as error:
                response = json_response({"error": str(error)}, 400)
            except answers.UnknownNameError as error:
                response = json_response({"error": str(error), "loading": self._follower.loaded < 1}, 404)
            except Exception:
                _log.exception("%s %s", request.method, query.shown(request.path))
                response = json_response({"error": "the page failed; the log of `resonance page` says why"}, 500)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    # What the page shows

    async def _index(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(STATIC / "index.html")

    async def _read(self, work: Callable[[DeploymentView], T]) -> T:
        """Return what `work` finds in the view: in a thread, because others hold its lock for long."""

        def locked() -> T:
            with self._follower.locked() as view:
                return work(view)

        return await asyncio.to_thread(locked)

    async def _shown(self, work: Callable[[DeploymentView], Mapping[str, Any]]) -> web.Response:
        shown = await self._read(work)
        body = await asyncio.to_thread(orjson.dumps, shown, None, orjson.OPT_NON_STR_KEYS)
        response = web.Response(body=body, content_type="application/json")
        response.enable_compression()
        return response

    async def _overview(self, request: web.Request) -> web.Response:
        given = _given(request)
        given["ascending"] = given["ascending"] == "1"
        return await self._shown(lambda view: answers.overview(view, **given) | self._state())

    async def _stream(self, request: web.Request) -> web.Response:
        """Answer for the time in the address, or for now."""
        name, at = _given(request).values()
        if at is None:
            return await self._shown(lambda view: answers.stream(view, name))
        try:
            async with self._past:
                stored = await asyncio.to_thread(self._follower.stored, name)
        except BrokerError as error:
            return json_response({"error": f"the past of stream {name} cannot be read: {error}"}, 503)
        return await self._shown(lambda view: answers.stream(stored.at(at, view), name) | {"at": at})

    async def _cluster(self, request: web.Request) -> web.Response:
        name = _given(request)["id"]
        return await self._shown(lambda view: answers.cluster(view, name))

    async def _incident(self, request: web.Request) -> web.Response:
        key = _given(request)["key"]
        return await self._shown(lambda view: answers.incident(view, key))

    async def _events(self, request: web.Request) -> web.Response:
        given = _given(request)
        number, time = given.pop("before"), given.pop("before_time")
        if time and number is None:
            raise query.QueryError(f"before_time = {time}: needs before, the number of the entry of that time")
        before = None if number is None else (time, number)
        kinds, severities = given.pop("kind"), given.pop("severity")
        find = partial(answers.events, before=before, kinds=kinds, severities=severities, **given)
        return await self._shown(find)

    async def _operations_page(self, request: web.Request) -> web.Response:
        _given(request)
        report = await self._operations.report()
        return await self._shown(lambda view: report | {"dead_letters": answers.dead_letters(view)} | self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "deployment": self._deployment,
            "loaded": round(self._follower.loaded, 2),
            "waiting": self._waiting,
            "troubles": self._follower.sentences(),
        }

    # What happens

    async def _live(self, request: web.Request) -> web.StreamResponse:
        # The browser's own, where it connects again by itself; the page's, where it had closed its connection.
        last = request.headers.get("Last-Event-ID", "")
        after = _given(request, {"after": last} if last else {})["after"]
        if len(self._tabs) >= MOST_TABS:
            return json_response({"error": f"{MOST_TABS} tabs are open already; close some"}, 503)
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        tab = Tab(WAITING)
        self._tabs.add(tab)
        try:
            missed, headline = await self._read(lambda view: (answers.missed(view, after, MISSED), view.headline()))
            await response.prepare(request)
            for entry in missed:
                await response.write(_message("entry", entry, entry["number"]))
            await response.write(_message("tick", headline | self._state()))
            # What came in meanwhile may be among both.
            newest = missed[-1]["number"] if missed else 0
            while (message := await tab.get()) is not None:
                number, content = message
                if not 0 < number <= newest:
                    await response.write(content)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tabs.discard(tab)
        return response

    async def _tick(self) -> None:
        def headline(view: DeploymentView) -> dict[str, Any]:
            view.tick()
            return view.headline()

        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self._send(_message("tick", await self._read(headline) | self._state()))
            except Exception:  # the next ones may be made
                _log.exception("the page's figures")

    async def _ask(self) -> None:
        while True:
            try:
                self._waiting = await self._operations.waiting() if self._tabs else None
            except Exception:  # a page without this number is better than one with an old one
                _log.exception("how many records wait")
                self._waiting = None
            await asyncio.sleep(ASK_SECONDS if self._tabs else TICK_SECONDS)

    def _send(self, message: bytes, number: int = 0) -> None:
        for tab in list(self._tabs):
            try:
                tab.put_nowait((number, message))
            except asyncio.QueueFull:
                self._tabs.discard(tab)
                _end(tab)


def _end(tab: Tab) -> None:
    """Let a tab get nothing more, whatever waits for it."""
    with contextlib.suppress(asyncio.QueueEmpty):
        while True:
            tab.get_nowait()
    tab.put_nowait(None)


def _message(kind: str, shown: Mapping[str, Any], number: int | None = None) -> bytes:
    head = f"event: {kind}\n" + ("" if number is None else f"id: {number}\n")
    return head.encode() + b"data: " + orjson.dumps(shown) + b"\n\n"


def _given(request: web.Request, instead: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the parameters of an address; some can be given `instead`, as headers are."""
    return query.values({**request.query, **(instead or {})}, QUERIES[request.path.removeprefix("/api/")])
