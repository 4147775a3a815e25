"""What a contestant is, and our engines as contestants."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bench.quality.task import CHUNK, new_task, process
from bench.streams import Array

Setting = Mapping[str, Any]

FLAP = 40_000
"""Ten memories of the default engine."""


class TooSlowError(Exception):
    """A contestant is given no more time; `args` are the records that it learned and the seconds."""


class Answers(NamedTuple):
    """What was said of each record before it was learned, and the CPU seconds of all.

    Of ours the events of the second half, the clusters of the first level at the end, and the share of all that were
    made that another one absorbed within `FLAP` records.
    """

    groups: list[object]
    seconds: float
    events: int | None = None
    present: int | None = None
    flap: float | None = None


class Contestant(NamedTuple):
    """A clusterer: its name, whether it knows the number of clusters, its sweep, and how it answers.

    `answer` takes records, the number of clusters, a setting, and the most CPU seconds.
    """

    name: str
    knows_k: bool
    settings: tuple[Setting, ...]
    answer: Callable[[Array, int, Setting, float], Answers]


def engine(name: str, *settings: Setting, given: Setting | None = None) -> Contestant:
    """Return one of our engines behind the partition task, JSON on both sides; the first setting is `given`."""

    def answer(X: Array, _: int, setting: Setting, limit: float) -> Answers:
        groups: list[object] = []
        present: set[str] = set()
        made = dict[str, int]()
        flaps = 0
        seconds, events, half = 0.0, 0, len(X) // 2
        task = new_task({"engine.name": name, **setting})
        for chunk in process(task, X, sorted({*range(0, len(X), CHUNK), half, len(X)})):
            groups += [one["cluster"] for one in chunk.assignments]
            events += len(chunk.events) if chunk.start >= half else 0
            for event in chunk.events:
                if event["level"] == 1:
                    present.difference_update(cluster["id"] for cluster in event["before"])
                    present.update(cluster["id"] for cluster in event["after"])
                    offset = event["cause"]["source"]["offset"]
                    if event["kind"] != "absorbed":
                        made.setdefault(event["cluster"], offset)
                    else:
                        flaps += offset - made[event["cluster"]] <= FLAP
            seconds += chunk.seconds
            if seconds > limit:
                raise TooSlowError(len(groups), seconds)
        return Answers(groups, seconds, events, len(present), flaps / max(1, len(made)))

    return Contestant(name, False, (given or {}, *settings), answer)
