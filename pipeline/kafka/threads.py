"""Whether the machine gives the threads of another Kafka client."""

import threading
from typing import Final

from resonance.pipeline.errors import named

CLIENT_THREADS: Final = 8
"""Threads that a Kafka client needs, and some to spare: one for itself, and one for each broker that it talks to."""


def require_threads(count: int = CLIENT_THREADS) -> None:
    """Raise `ResourceError` where the machine does not give so many threads more, or no memory for their stacks.

    librdkafka itself hangs there, with the interpreter locked, or aborts the process.
    """
    enough = threading.Event()
    try:
        for _ in range(count):
            threading.Thread(target=enough.wait, name="probe", daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        raise named(error) or error from error
    finally:
        enough.set()
