"""A real Apache Kafka for tests, benchmarks and work by hand.

In this order: the broker that ``KAFKA_BOOTSTRAP`` names, a container where a Docker engine answers, the official jars
on the local Java. ``python -m tests.brokers`` starts one and prints where it is.
"""

import os
from contextlib import contextmanager

from tests.brokers import container, jvm
from tests.brokers.errors import NoBrokerError
from tests.brokers.topics import answers, create_topic, produce, read_topic, topic_name

__all__ = [
    "NoBrokerError",
    "answers",
    "create_topic",
    "produce",
    "read_topic",
    "required",
    "running_broker",
    "topic_name",
]


def required():
    """Whether a run without a broker is a failure (``REQUIRE_BROKER=1``) and not a reason to skip."""
    return os.environ.get("REQUIRE_BROKER", "") not in ("", "0")


@contextmanager
def running_broker(port=0):
    """Bootstrap servers of a broker that answers, on a port if one is given; what was started is stopped at the end."""
    if given := os.environ.get("KAFKA_BOOTSTRAP", ""):
        if not answers(given, timeout=15):
            raise NoBrokerError(f"KAFKA_BOOTSTRAP = {given}: no broker answers there")
        yield given
        return
    reasons = []
    for way in (container, jvm):
        try:
            started = way.start(port)
        except NoBrokerError as reason:
            reasons.append(str(reason))
            continue
        try:
            yield started.bootstrap
        finally:
            started.stop()
        return
    raise NoBrokerError("no Kafka broker: KAFKA_BOOTSTRAP is not set; " + "; ".join(reasons))
