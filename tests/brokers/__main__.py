"""Start a broker, on a port that may be given, print its bootstrap servers, and stop it at Ctrl-C or SIGTERM."""

import argparse
import contextlib
import signal
import socket
import sys
import threading

from tests.brokers import NoBrokerError, running_broker


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m tests.brokers", description=__doc__)
    parser.add_argument("port", nargs="?", type=int, default=0, help="of localhost; any free one without it")
    port = parser.parse_args(arguments).port
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        sys.stderr.write(
            f"port {port} is taken: a broker may run there already, or take another one: make broker PORT=...\n"
        )
        return 1
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with running_broker(port) as bootstrap:
            sys.stdout.write(f"{bootstrap}\n")
            sys.stdout.flush()
            ended.wait()
    except NoBrokerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
