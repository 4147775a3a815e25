"""Addresses that brokers give for themselves (``advertised.listeners``), and whether this machine reaches them.

The first brokers of a connection answer with these addresses, and everything else goes there: a broker in a container
that names itself as only other containers know it answers the first request, and no other.
"""

import re
import socket
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.clients import new_client

CONNECT_SECONDS: Final = 2.0
"""Time for all connections that are tried, with the look-up of their names."""

_ADDRESS: Final = re.compile(r"Broker #\d+/(\d+): (\S+):(\d+) NodeId")
"""How librdkafka logs each address of an answer, with the number of all."""


def wrong_listener(client: Mapping[str, Any], *, all_of_them: bool) -> BrokerError | None:
    """Return the error for addresses of brokers that cannot be reached, None where they can, or where none is known.

    Unless `all_of_them` must be away, one is enough: it may also belong to a broker that is away for a while.
    """
    places = _Addresses().given_to(client)
    return unreached(str(client["bootstrap.servers"]), places, all_of_them) if places else None


class _Addresses:
    """The addresses that the first brokers give, read in librdkafka's log.

    With them a client leaves the connection over which they came, and mostly what was requested there: a call that
    returns them is answered by chance.
    """

    def __init__(self) -> None:
        self._places: set[tuple[str, int]] = set()
        self._count = 1

    def log(self, level: int, form: str, *values: object) -> None:
        if found := _ADDRESS.search(str(values[-1])):
            self._count = int(found[1])
            self._places.add((found[2], int(found[3])))

    def given_to(self, client: Mapping[str, Any]) -> Collection[tuple[str, int]]:
        """Return those that a client gets within `CONNECT_SECONDS`."""
        admin = new_client(AdminClient, {**client, "log_level": 7, "debug": "metadata"}, logger=self)
        end = time.monotonic() + CONNECT_SECONDS
        while len(self._places) < self._count and time.monotonic() < end:
            admin.poll(0.05)
        return self._places


def unreached(servers: str, places: Collection[tuple[str, int]], all_of_them: bool) -> BrokerError | None:
    """Return the error for those places, given by the `servers`, that cannot be reached."""
    failures = _failures(places)
    if not failures or (all_of_them and len(failures) < len(places)):
        return None
    named = " and ".join(f"{address} ({reason})" for address, reason in sorted(failures.items()))
    return BrokerError(
        f"{servers} answers, and gives {named} as the address of {'its broker' if len(places) == 1 else 'brokers'}: "
        "from this machine it cannot be reached; let the brokers advertise another (advertised.listeners of "
        "server.properties, KAFKA_ADVERTISED_LISTENERS of a container), or make the name known here (/etc/hosts)"
    )


def _failures(places: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Return why each address is not reached, by address; all are tried at once."""
    found: dict[str, str] = {}

    def connect(host: str, port: int) -> None:
        address = f"{host}:{port}"
        found[address] = f"no answer within {CONNECT_SECONDS:g} s"
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            found[address] = error.strerror or str(error)
        else:
            found.pop(address)

    threads = [threading.Thread(target=connect, args=place, daemon=True) for place in places]
    for thread in threads:
        thread.start()
    end = time.monotonic() + CONNECT_SECONDS
    for thread in threads:
        # A look-up of a name can take long, and cannot be ended.
        thread.join(max(end - time.monotonic(), 0))
    return dict(found)
