"""The worker's HTTP pages: for probes, for Prometheus, and the one request that changes something.

They are served from the first second on, while kernels are compiled and models restored. Holding the port keeps two
workers of one host from using the same worker id.
"""

import asyncio
import errno
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from resonance.pipeline.config.messages import variable
from resonance.pipeline.config.sections import WorkerSection
from resonance.pipeline.errors import ConfigurationError, system_reason
from resonance.pipeline.worker.http.all_workers import AllWorkers
from resonance.pipeline.worker.http.assignments import ASSIGN_PATH, AT_ONCE, RecordAssignments
from resonance.pipeline.worker.http.metrics import exposition
from resonance.pipeline.worker.http.page_client import RESUME_PATH, SCHEME, is_same, is_signed
from resonance.pipeline.worker.http.status import WorkerStatus

PAGES = {
    "GET /livez": "whether the worker makes progress",
    "GET /readyz": "whether it answers records: its phase, partitions and models",
    f"POST {RESUME_PATH}": "resume a partition that dead letters paused: resonance dlq resume",
}
"""What ``/`` lists, with one of `OWN_PAGES`."""

OWN_PAGES: Final = {
    "/metrics": "counters and histograms for Prometheus",
    "/workers": "where the metrics of each worker are, for Prometheus' http_sd",
}

REQUEST_BYTES = 64 * 1024
CLOSE_SECONDS = 1.0
"""How long a request that is being answered may delay the worker's end."""

PROBES: Final = ("/livez", "/readyz")
"""Pages that are served without the token: probes of Kubernetes have none."""

RUNNER: Final[dict[str, Any]] = {"access_log": None, "handle_signals": False, "shutdown_timeout": CLOSE_SECONDS}
"""How the pages of this program are served."""

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
ResumeHandler = Callable[[str | None], Awaitable[list[str]]]


class ContentOfWorker:
    """What the pages of one worker say."""

    own_page = "/metrics"
    """Path of a page of `OWN_PAGES`."""

    def __init__(self, status: WorkerStatus, registry: CollectorRegistry, resume: ResumeHandler) -> None:
        self._status = status
        self._registry = registry
        self._resume = resume

    async def live(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the worker makes progress, and what ``/livez`` shows."""
        return self._status.live()

    async def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the worker answers records, and what ``/readyz`` shows."""
        return self._status.ready()

    async def page(self, request: web.Request) -> tuple[bytes, str]:
        """Return the metrics of the worker and of its process, and their content type."""
        # In a thread: the figures of many partitions take some milliseconds.
        return await asyncio.to_thread(exposition, self._registry, request.headers.get("Accept", ""))

    async def resume(self, partition: str | None) -> list[str]:
        """Resume a paused partition by its name in messages, or all of them, and return their names."""
        return await self._resume(partition)


Content = ContentOfWorker | AllWorkers
"""What the pages say: of one worker, or of several."""


class Pages:
    """Serves pages; with a `token` every request but those of probes must have it."""

    def __init__(
        self, content: Content, token: SecretStr | None = None, assignments: RecordAssignments | None = None
    ) -> None:
        self._content = content
        self._assignments = assignments
        self._token = token.get_secret_value() if token else ""
        self._host = ""
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Begin to serve; raise `ConfigurationError` where the port is taken or there is no such address."""
        self._host = host
        most = REQUEST_BYTES + (self._assignments.most if self._assignments else 0)
        app = web.Application(client_max_size=most, middlewares=[self._authorized])
        app.router.add_get("/", self._index)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get(self._content.own_page, self._own_page)
        app.router.add_post(RESUME_PATH, self._dlq_resume)
        if self._assignments is not None:
            app.router.add_post(ASSIGN_PATH, self._assign)
        # A request whose client has gone is given up.
        self._runner = web.AppRunner(app, **RUNNER, handler_cancellation=True)
        try:
            await listen(self._runner, host, port)
        except OSError as error:
            raise _not_listening(host, port, error) from error

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _index(self, request: web.Request) -> web.Response:
        own = self._content.own_page
        assign = (
            {f"POST {ASSIGN_PATH}": "the assignment of a record, which is not learned"} if self._assignments else {}
        )
        return json_response({"pages": PAGES | assign | {f"GET {own}": OWN_PAGES[own]}}, 200)

    @web.middleware
    async def _authorized(self, request: web.Request, handler: Answer) -> web.StreamResponse:
        if self._token and await self._has_token(request):
            return await handler(request)
        if error := foreign_host(request, self._host):
            return json_response({"error": error}, 403)
        if self._token and request.path not in PROBES:
            text = "this page needs the worker's token: Authorization: Bearer TOKEN"
            return json_response({"error": text}, 401, {"WWW-Authenticate": "Bearer"})
        return await handler(request)

    async def _has_token(self, request: web.Request) -> bool:
        """Return whether a request has the token, or is signed with it."""
        given = request.headers.get("Authorization", "")
        if is_same(given, f"Bearer {self._token}"):
            return True
        body = await request.read() if given.startswith(SCHEME) else b""
        _, port, *_ = request.get_extra_info("sockname", ("", 0))
        return is_signed(given, self._token, request.method, port, request.path_qs, body)

    async def _livez(self, request: web.Request) -> web.Response:
        live, shown = await self._content.live()
        return json_response(shown, 200 if live else 503)

    async def _readyz(self, request: web.Request) -> web.Response:
        ready, shown = await self._content.ready()
        return json_response(shown, 200 if ready else 503)

    async def _own_page(self, request: web.Request) -> web.Response:
        page, content_type = await self._content.page(request)
        return web.Response(body=page, headers={"Content-Type": content_type})

    async def _assign(self, request: web.Request) -> web.Response:
        if refused := _of_browser(request, "ask from a program"):
            return refused
        assert self._assignments is not None  # noqa: S101 - or there is no such route
        room = self._assignments.room
        if room.locked():
            text = f"{AT_ONCE} requests are being answered; ask again in a second"
            return json_response({"error": text}, 503, {"Retry-After": "1"})
        async with room:
            status, body = await self._assignments.answer(request.query, await request.read())
        return web.Response(body=body, status=status, content_type="application/json")

    async def _dlq_resume(self, request: web.Request) -> web.Response:
        if refused := _of_browser(request, "use `resonance dlq resume`"):
            return refused
        if request.content_type != "application/json":
            return json_response({"error": "send JSON, with Content-Type: application/json"}, 415)
        try:
            body = orjson.loads(await request.read() or b"{}")
            partition = body.get("partition")
            if partition is not None and not isinstance(partition, str):
                raise ValueError("partition is text, such as features[0]")
        except (ValueError, AttributeError) as error:
            return json_response({"error": f"the request cannot be read: {error}"}, 400)
        resumed = await self._content.resume(partition)
        if partition is not None and not resumed:
            return json_response({"error": f"{partition} is not paused on this worker", "resumed": []}, 404)
        return json_response({"resumed": resumed}, 200)


async def listen(runner: web.AppRunner, host: str, port: int) -> None:
    """Begin to serve; an `OSError` says why an address or a port cannot be had."""
    await runner.setup()
    await web.TCPSite(runner, host, port).start()


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a name or an address, which may stand in brackets."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def foreign_host(request: web.Request, host: str) -> str | None:
    """Return why a request to pages for this machine alone is refused; None where they are not, or it names this one.

    A page of the web can give its own name this machine's address, and then read what is served here.
    """
    if not is_loopback(host):
        return None
    with suppress(ValueError):
        if is_loopback(request.url.host or ""):
            return None
    return f"this page answers to 127.0.0.1 and localhost, not to {request.host!a}"


def check_exposure(worker: WorkerSection) -> None:
    """Raise `ConfigurationError` where pages without a token would be served beyond this machine."""
    if not (is_loopback(worker.web_host) or worker.web_token or worker.web_open):
        raise ConfigurationError(
            f"worker.web_host = {worker.web_host}: others than this machine could read the metrics and resume "
            f"partitions; set {variable('worker.web_token')} to a secret, worker.web_open = true where only trusted "
            "hosts reach the port, or worker.web_host = 127.0.0.1"
        )


def address(host: str, port: int) -> str:
    """Return where the pages are, as seen from this machine where they are served on all its addresses."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _of_browser(request: web.Request, instead: str) -> web.Response | None:
    """Return the refusal of a request of a page: a browser names it, whatever machine its name was made to point to."""
    if "Origin" not in request.headers:
        return None
    return json_response({"error": f"no page of a browser may ask for this; {instead}"}, 403)


def json_response(shown: dict[str, Any], status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a short answer that is no file."""
    return web.Response(body=orjson.dumps(shown), status=status, headers=headers, content_type="application/json")


def _not_listening(host: str, port: int, error: OSError) -> ConfigurationError:
    if error.errno == errno.EADDRINUSE:
        return ConfigurationError(
            f"worker.web_port = {port}: something listens on {host}:{port} already, perhaps another worker; give each "
            "worker of a machine its own port (--web-port)"
        )
    return ConfigurationError(
        f"worker.web_host = {host}, worker.web_port = {port}: cannot listen there ({system_reason(error)}); "
        "choose an address of this machine and a port of at least 1024"
    )
