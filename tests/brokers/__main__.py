"""Start a broker, print its bootstrap servers, and stop it at Ctrl-C or SIGTERM."""

import signal
import sys
import threading

from tests.brokers import NoBrokerError, running_broker


def main():
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with running_broker() as bootstrap:
            sys.stdout.write(f"{bootstrap}\n")
            sys.stdout.flush()
            ended.wait()
    except NoBrokerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
