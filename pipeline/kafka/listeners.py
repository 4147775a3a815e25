"""Addresses that brokers give for themselves (``advertised.listeners``), and whether this machine reaches them.

The first brokers of a connection answer with these addresses, and everything else goes there: a broker in a container
that names itself as only other containers know it answers the first request, and no other.
"""

import socket
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from resonance.pipeline.errors import BrokerError

CONNECT_SECONDS: Final = 2.0
"""Time for all connections that are tried, with the look-up of their names."""

ANSWER_SECONDS: Final = 1.0
"""Time for the first brokers to give the addresses."""

TRIES: Final = 8
"""Clients that request them: two of three drop the connection before the answer, once they know better (measured)."""


def wrong_listener(client: Mapping[str, Any], *, all_of_them: bool) -> BrokerError | None:
    """Return the error for addresses of brokers that cannot be reached, None where they can, or where none is known.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    all_of_them : bool
        Whether one address that can be reached is enough: others may belong to brokers that are away for a while.
    """
    for _ in range(TRIES):
        with suppress(KafkaException):
            # A connection of its own: one that has the brokers' addresses may use no other.
            brokers = AdminClient({"log_level": 0, **client}).list_topics(timeout=ANSWER_SECONDS).brokers.values()
            places = [(each.host, each.port) for each in brokers]
            return unreached(str(client["bootstrap.servers"]), places, all_of_them)
    return None


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
