"""Serves the page: its files, what they show as JSON, and what happens as server-sent events."""

import asyncio
import contextlib
import hmac
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import orjson
from aiohttp import web
from resonance.pipeline.errors import BrokerError, ConfigurationError
from resonance.pipeline.page import answers, timeline
from resonance.pipeline.page.files import PageFile, page_files
from resonance.pipeline.page.follower import Follower
from resonance.pipeline.page.operations import Operations
from resonance.pipeline.page.timeline import TimelineEntry
from resonance.pipeline.worker.http.pages import is_loopback

PAGES: Final = ("/", "/stream", "/cluster", "/events", "/operations")
"""Addresses that show the page; what they are about stands behind the question mark."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # A page of before is checked by its digest.
    "Cache-Control": "no-cache",
}

COOKIE: Final = "resonance_page"
"""Has the token, once the address had it."""

MOST_TABS: Final = 100
"""Tabs that are kept up to date at the same time."""

WAITING: Final = 200
"""Messages that may wait for a slow tab before it is let go; it comes back and gets what it missed."""

MISSED: Final = 500
"""Most entries that a tab gets when it comes back."""

TICK_SECONDS: Final = 1.0
ASK_SECONDS: Final = 5.0
"""Seconds between two questions to the broker for how many records wait, while a tab is open."""

CLOSE_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


Tab = asyncio.Queue[bytes | None]
"""Messages that wait for a tab; None ends it."""


class PageServer:
    """Serves what a follower has read.

    With a `token` every request needs it: as ``Authorization: Bearer``, in a cookie, or once in the address.
    Without one only requests that name this machine are answered, so that no page of the web can have a name of its own
    lead here.
    """

    def __init__(self, follower: Follower, operations: Operations, token: str = "") -> None:
        self._follower = follower
        self._operations = operations
        self._token = token
        self._tabs: set[Tab] = set()
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: int | None = None
        """Records without an answer, where the broker says so."""
        self._host = ""

    async def start(self, host: str, port: int) -> None:
        """Begin to serve; raise `ConfigurationError` where the port is taken or there is no such address."""
        self._host = host
        app = web.Application(client_max_size=1024, middlewares=[self._guarded])
        for path in PAGES:
            app.router.add_get(path, self._index)
        app.router.add_get("/static/{name}", self._file)
        app.router.add_get("/api/live", self._live)
        for name, answer in (
            ("overview", self._overview),
            ("cluster", self._cluster),
            ("events", self._events),
        ):
            app.router.add_get(f"/api/{name}", self._answering(answer))
        app.router.add_get("/api/stream", self._stream_page)
        app.router.add_get("/api/operations", self._operations_page)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=CLOSE_SECONDS)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConfigurationError(
                f"the page cannot be served on {host}:{port} ({reason}); another one may be open there: give this one "
                "its own --port, and --host an address of this machine"
            ) from error
        self._tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._ask())]

    async def stop(self) -> None:
        """Close the port."""
        for task in self._tasks:
            task.cancel()
        for tab in self._tabs:
            tab.put_nowait(None)
        if self._runner is not None:
            await self._runner.cleanup()

    def publish(self, entries: Sequence[TimelineEntry]) -> None:
        """Send entries to every tab; called in the event loop."""
        for entry in timeline.as_json(entries, self._follower.view.names):
            self._send(_message("entry", entry, entry["number"]))

    # Who may ask

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Answer) -> web.StreamResponse:
        response = self._refused(request) or self._admitted(request)
        if response is None:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = _json({"error": f"there is no page {request.path} ({error.reason})"}, error.status)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _admitted(self, request: web.Request) -> web.StreamResponse | None:
        """Exchange a token in the address for a cookie."""
        if not self._token or "token" not in request.query:
            return None
        rest = request.rel_url.without_query_params("token")
        moved = web.Response(status=303, headers={"Location": str(rest)})
        moved.set_cookie(COOKIE, self._token, httponly=True, samesite="Strict", path="/")
        return moved

    def _refused(self, request: web.Request) -> web.Response | None:
        if not self._token:
            if is_loopback(self._host) and not is_loopback(request.url.host or ""):
                return _json({"error": f"this page answers to 127.0.0.1 and localhost, not to {request.host}"}, 403)
            return None
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        given = given or request.query.get("token", "") or request.cookies.get(COOKIE, "")
        if hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
            return None
        text = "this page needs the token (worker.web_token): open it once with ?token=TOKEN behind its address"
        refused = _json({"error": text}, 401)
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    # Files

    async def _index(self, request: web.Request) -> web.Response:
        return _served(request, page_files()["index.html"])

    async def _file(self, request: web.Request) -> web.Response:
        found = page_files().get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _served(request, found)

    # What the page shows

    def _answering(self, answer: Callable[[Mapping[str, str]], dict[str, Any]]) -> Answer:
        """Return a handler that answers in a thread, so that the others go on meanwhile."""

        def locked(query: Mapping[str, str]) -> dict[str, Any]:
            with self._follower.view.lock:
                return answer(query)

        async def handler(request: web.Request) -> web.Response:
            try:
                found = await asyncio.to_thread(locked, request.query)
            except answers.UnknownNameError as error:
                return _json({"error": str(error), "loading": self._follower.loaded < 1}, 404)
            except ValueError as error:
                return _json({"error": f"the address cannot be read: {error}"}, 400)
            return _zipped(request, found)

        return handler

    def _overview(self, query: Mapping[str, str]) -> dict[str, Any]:
        found = answers.overview(
            self._follower.view,
            query.get("search", ""),
            query.get("order", "rate"),
            ascending=query.get("ascending") == "1",
            start=max(int(query.get("start", 0)), 0),
            most=max(int(query.get("most", 50)), 0),
        )
        return found | self._state()

    def _stream(self, query: Mapping[str, str]) -> dict[str, Any]:
        return answers.stream(self._follower.view, query.get("name", ""))

    async def _stream_page(self, request: web.Request) -> web.StreamResponse:
        """Answer for the time in the address, or for now."""
        if not request.query.get("at"):
            return await self._answering(self._stream)(request)
        name = request.query.get("name", "")
        try:
            stored = await asyncio.to_thread(self._follower.stored, name)
        except BrokerError as error:
            return _json({"error": f"the past of stream {name} cannot be read: {error}"}, 503)

        def answer(query: Mapping[str, str]) -> dict[str, Any]:
            view = self._follower.view
            then = stored.at(int(query["at"]), view)
            return answers.stream(then, name) | {"at": int(query["at"])}

        return await self._answering(answer)(request)

    def _cluster(self, query: Mapping[str, str]) -> dict[str, Any]:
        return answers.cluster(self._follower.view, query.get("id", ""))

    def _events(self, query: Mapping[str, str]) -> dict[str, Any]:
        listed = {name: [one for one in query.get(name, "").split(",") if one] for name in ("kind", "severity")}
        view = self._follower.view
        found = view.timeline.select(
            min(int(query.get("most", 100)), answers.MOST_ROWS),
            kinds=listed["kind"],
            severities=listed["severity"],
            stream=query.get("stream", ""),
            search=query.get("search", ""),
            before=(query["before_time"], int(query["before"])) if "before_time" in query else None,
            names=view.names,
        )
        return {"entries": timeline.as_json(found, view.names), "newest": view.timeline.newest}

    async def _operations_page(self, request: web.Request) -> web.Response:
        found = await self._operations.report()
        counted = sorted(self._follower.view.dead_letters.copy().items(), key=lambda each: -each[1]["count"])
        found["dead_letters"] = [
            {"where": where, "stage": stage, "class": kind, **known, "count": round(known["count"])}
            for (where, stage, kind), known in counted
        ]
        return _zipped(request, found | self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "deployment": self._follower.view.name,
            "loaded": round(self._follower.loaded, 2),
            "waiting": self._waiting,
            "troubles": self._follower.sentences(),
        }

    # What happens

    async def _live(self, request: web.Request) -> web.StreamResponse:
        if len(self._tabs) >= MOST_TABS:
            return _json({"error": f"{MOST_TABS} tabs are open already; close some"}, 503)
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        tab = Tab(WAITING)
        self._tabs.add(tab)
        try:
            # The browser's own, where it connects again by itself; the page's, where it had closed its connection.
            last = request.headers.get("Last-Event-ID", "") or request.query.get("after", "")
            view = self._follower.view
            with view.lock:
                missed = view.timeline.since(int(last))[-MISSED:] if last.isdecimal() else []
            for entry in timeline.as_json(missed, view.names):
                await response.write(_message("entry", entry, entry["number"]))
            await response.write(self._headline())
            while (message := await tab.get()) is not None:
                await response.write(message)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tabs.discard(tab)
        return response

    def _headline(self) -> bytes:
        view = self._follower.view
        with view.lock:
            shown = view.headline()
        return _message("tick", shown | self._state())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            view = self._follower.view
            with view.lock:
                view.tick()
            if self._tabs:
                self._send(self._headline())

    async def _ask(self) -> None:
        while True:
            try:
                self._waiting = await self._operations.waiting() if self._tabs else None
            except Exception:  # a page without this number is better than one with an old one
                _log.exception("how many records wait")
                self._waiting = None
            await asyncio.sleep(ASK_SECONDS if self._tabs else TICK_SECONDS)

    def _send(self, message: bytes) -> None:
        for tab in list(self._tabs):
            try:
                tab.put_nowait(message)
            except asyncio.QueueFull:
                self._tabs.discard(tab)
                with contextlib.suppress(asyncio.QueueEmpty):
                    while True:
                        tab.get_nowait()
                tab.put_nowait(None)


def _message(kind: str, shown: Mapping[str, Any], number: int | None = None) -> bytes:
    head = f"event: {kind}\n" + ("" if number is None else f"id: {number}\n")
    return head.encode() + b"data: " + orjson.dumps(shown) + b"\n\n"


def _json(shown: Mapping[str, Any], status: int) -> web.Response:
    return web.Response(body=orjson.dumps(shown), status=status, content_type="application/json")


def _zipped(request: web.Request, shown: Mapping[str, Any]) -> web.Response:
    """Return JSON with its digest, compressed where it is long; nothing where the browser has it."""
    body = orjson.dumps(shown, option=orjson.OPT_NON_STR_KEYS)
    return _served(request, PageFile.of(body, "application/json", level=1))


def _served(request: web.Request, file: PageFile) -> web.Response:
    headers = {"ETag": file.etag, "Vary": "Accept-Encoding"}
    if request.headers.get("If-None-Match") == file.etag:
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = file.type
    if file.zipped and "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=file.zipped, headers=headers | {"Content-Encoding": "gzip"})
    return web.Response(body=file.content, headers=headers)
