"""A broker in a container, where a Docker engine answers."""

import logging
import os
from dataclasses import dataclass
from typing import Any

from tests.brokers.errors import NoBrokerError
from tests.brokers.jvm import VERSION, free_port, properties
from tests.brokers.topics import answers

IMAGE = f"apache/kafka:{VERSION}"


@dataclass
class Container:
    """A started container."""

    bootstrap: str
    container: Any

    def stop(self):
        self.container.stop()


def start(port=0):
    """Start a broker in a container, where an engine answers and can get the image."""
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient
    except ImportError as error:
        raise NoBrokerError(f"Docker: {error}") from error
    try:
        # The client program alone is no engine: ask the engine.
        DockerClient(timeout=5).client.ping()
    except Exception as error:
        raise NoBrokerError(f"Docker: no engine answers ({type(error).__name__})") from error
    # The container that testcontainers starts to clean up after crashes is one more image to fetch.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    logging.getLogger("testcontainers").setLevel(logging.WARNING)
    port, bootstrap = port or free_port(), ""
    settings = properties(port, 9093, "/tmp/kraft-logs", host="0.0.0.0")  # noqa: S108, S104 - inside the container
    # The image formats its folder for a fixed set of voters.
    del settings["controller.quorum.bootstrap.servers"]
    settings["controller.quorum.voters"] = "1@127.0.0.1:9093"
    box = DockerContainer(IMAGE)
    # `with_bind_ports` takes no address, and would listen on every interface.
    box.ports[f"{port}/tcp"] = ("127.0.0.1", port)
    for name, value in settings.items():
        box = box.with_env("KAFKA_" + name.replace(".", "_").upper(), value)
    try:
        box.start()
        bootstrap = f"127.0.0.1:{port}"
        if not answers(bootstrap, timeout=90):
            raise NoBrokerError(f"Docker: {IMAGE} does not answer after 90 s")
    except Exception as error:
        box.stop()
        raise NoBrokerError(f"Docker: {IMAGE} did not start ({type(error).__name__}: {error})") from error
    return Container(bootstrap, box)
