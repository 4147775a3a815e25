"""A TCP proxy between the clients and a broker of its own: it loses single requests, and does what lines do."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.brokers import jvm

ADD_OFFSETS, END, COMMIT_OFFSETS = 25, 26, 28
"""Keys of the requests AddOffsetsToTxn, EndTxn and TxnOffsetCommit."""


class Proxy:
    """Passes requests on one by one.

    Attributes
    ----------
    port : int
        Where clients connect.
    broker : int
        Port of the broker behind it.
    late : list of bytes
        Requests that their clients believe lost, until `deliver`.
    delay : float
        Seconds that whatever passes takes, in each direction.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._server.getsockname()[1]
        self.broker = 0
        self.late: list[bytes] = []
        self.delay = 0.0
        self._passes = threading.Event()
        self._passes.set()
        self._lose: dict[int, bool] = {}
        self._instead: dict[int, list[bytes]] = {}
        self._before: dict[int, Callable[[], object]] = {}
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, api: int, *, answered: bool) -> None:
        """Cut the connection of the next request of a kind: before the broker gets it, or when it has `answered`."""
        self._lose[api] = answered

    def answer(self, api: int, *bodies: bytes) -> None:
        """Answer the next requests of a kind, each with one of these bodies, in place of the broker.

        Without a body there is no answer, and the request is late.
        """
        self._instead[api] = list(bodies)

    def before(self, api: int, call: Callable[[], object]) -> None:
        """Make a call before the next request of a kind is passed on."""
        self._before[api] = call

    def deliver(self) -> list[bytes]:
        """Deliver the lost requests after all, each over a connection of its own; return the answers."""
        requests, self.late = self.late, []
        return [self._ask(request) for request in requests]

    def cut(self) -> None:
        """Reset every connection."""
        for one in list(self._open):
            _reset(one)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Let nothing through meanwhile; connections stay open, and new ones are accepted."""
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def close(self) -> None:
        """End it."""
        self._server.close()
        self._passes.set()
        self.cut()

    def _ask(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.broker), 10) as connection:
            connection.sendall(request)
            return _frame(connection)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _pass(self, data: bytes, to: socket.socket) -> None:
        self._passes.wait()
        time.sleep(self.delay)
        to.sendall(data)

    def _join(self, client: socket.socket) -> None:
        self._passes.wait()
        try:
            broker = socket.create_connection(("127.0.0.1", self.broker), 10)
        except OSError:
            _reset(client)
            return
        for one in (client, broker):
            one.settimeout(None)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open |= {client, broker}
        lost = threading.Event()
        threading.Thread(target=self._answers, args=(broker, client, lost), daemon=True).start()
        try:
            self._requests(client, broker, lost)
        finally:
            self._end(client, broker)

    def _requests(self, client: socket.socket, broker: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while request := _frame(client):
                api = int.from_bytes(request[4:6], "big")
                if call := self._before.pop(api, None):
                    call()
                if bodies := self._instead.get(api):
                    if body := bodies.pop(0):
                        client.sendall((4 + len(body)).to_bytes(4, "big") + request[8:12] + body)
                    else:
                        self.late.append(request)
                    continue
                answered = self._lose.pop(api, None)
                if answered is not None:
                    self.late.append(request)
                if answered is False:
                    return
                if answered:
                    lost.set()
                self._pass(request, broker)

    def _answers(self, broker: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(65536):
                if lost.is_set():
                    break
                self._pass(data, client)
        self._end(client, broker)

    def _end(self, *pair: socket.socket) -> None:
        for one in pair:
            _reset(one)
            self._open.discard(one)


def _frame(connection: socket.socket) -> bytes:
    """Return a whole request or answer with its length; empty at the end of the connection."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        size = 4 if len(data) < 4 else 4 + int.from_bytes(data[:4], "big")
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def proxied_jvm() -> Iterator[tuple[jvm.Jvm, Proxy]]:
    """Yield a broker, and a proxy in front of another of its listeners."""
    proxy = Proxy()

    def layout(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
        settings, client = jvm.plain(folder)
        proxy.broker = jvm.free_port()
        settings["listeners"] += f",PROXIED://127.0.0.1:{proxy.broker}"
        settings["advertised.listeners"] += f",PROXIED://127.0.0.1:{proxy.port}"
        settings["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        settings["inter.broker.listener.name"] = "PLAINTEXT"
        return settings, client

    started = jvm.start(layout=layout)
    try:
        yield started, proxy
    finally:
        proxy.close()
        started.stop()


@contextmanager
def proxied_broker() -> Iterator[tuple[str, Proxy]]:
    """Yield a broker's direct address, and a proxy in front of another of its listeners."""
    with proxied_jvm() as (started, proxy):
        yield started.bootstrap, proxy
