"""Partitions of a bootstrap from a file, which is read once for all of them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.replay.bootstrap import BootstrapResult, Learning
from resonance.pipeline.replay.file_partitions import Routed, unpack
from resonance.pipeline.replay.jobs import Report, described


def learn_lanes(job: Mapping[str, Any], routed: Iterator[Routed], report: Report) -> list[BootstrapResult]:
    """Learn the records routed to some partitions and write their snapshots to files.

    The job has ``settings``, ``deployment``, the file's ``path`` for messages, and ``lanes``: for each partition what
    `Learning` needs, and the ``offset`` at which its log continues.
    """
    settings, source = described(job)
    lanes = {lane["at"][1]: (Learning(settings, source, lane), lane["offset"]) for lane in job["lanes"]}
    for part in routed:
        learning, _ = lanes[part.partition]
        learning.take(part.on(learning.at[0]))
        report(len(part))
    found = []
    for learning, offset in lanes.values():
        learning.task.go_on_at(offset)
        # The learned records are in no log, so a replay can start only from the archive.
        found.append(learning.close(NO_OFFSET, offset))
    return found


def work(job: Mapping[str, Any], report: Report, frames: Iterator[bytes]) -> dict[str, Any]:
    """Learn the partitions of one process with `learn_lanes`."""
    return {"parts": [asdict(part) for part in learn_lanes(job, map(unpack, frames), report)]}
