"""A way to a broker on which the broker gives another address for itself than the one that leads there."""

import contextlib
import socket
import threading
from contextlib import contextmanager

UNKNOWN = "k.invalid"
"""A name without an address, as long as 127.0.0.1."""


@contextmanager
def misnamed(broker, host=UNKNOWN, port=None):
    """Yield an address that leads to a broker of 127.0.0.1, which there gives a `host` of 9 characters as its own."""
    given = int(broker.rpartition(":")[2])
    own, other = (
        name.encode() + number.to_bytes(4, "big") for name, number in (("127.0.0.1", given), (host, port or given))
    )
    server = socket.create_server(("127.0.0.1", 0))

    def accept():
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                there = socket.create_connection(("127.0.0.1", given))
                threading.Thread(target=passed, args=(client, there, b"", b""), daemon=True).start()
                threading.Thread(target=passed, args=(there, client, own, other), daemon=True).start()

    def passed(source, target, before, after):
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(1_000_000):
                target.sendall(data.replace(before, after) if before else data)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.close()
