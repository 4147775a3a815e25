"""A backlog that is small on disk and large in memory, and how much of that a worker takes."""

import json
import random
from pathlib import Path

from tests.brokers import produce

PADDING = 20_000
"""Spaces of a record: what compresses to next to nothing."""


def compressed(deployment, megabytes, codec, *, batch=1_000_000, first=0):
    """Append so many megabytes to each partition, in batches of a size before they are compressed; return the count."""
    rng, places = random.Random(first), [(0.1, 0.9), (0.5, 0.2), (0.8, 0.7)]
    values = []
    for _ in range(50):
        features = [round(rng.gauss(centre, 0.02), 4) for centre in rng.choice(places)]
        values.append(json.dumps({"features": features, "padding": " " * PADDING}).encode())
    count = int(megabytes * 1e6 / len(values[0]))
    for partition in range(deployment.partitions):
        own = ((partition, None, values[number % len(values)]) for number in range(count))
        how = {"compression_type": codec, "batch_size": batch, "message_max_bytes": max(batch, 1_000_000)}
        # A batch is full before it is sent.
        produce(deployment.broker, deployment.input, own, linger_ms=1000, **how)
    return count * deployment.partitions


def peak(process):
    """The most memory that a process has taken until now, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
