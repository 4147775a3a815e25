"""The streams of the comparison, and who says what of them."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from resonance.engine import ENGINES

from bench.gallery import embeddings
from bench.gallery.endless import Labelled
from bench.gallery.streams import named
from bench.live import RefusedError, halved
from bench.peers.contestants import CONTESTANTS, Contestant, Setting, TooSlowError

RECORDS = 6_000
LIMIT = 12.0
"""CPU seconds of one run: 2 ms a record."""

STREAMS = (
    ("long", "3 blobs d4"),
    ("long", "10 blobs d16"),
    ("long", "99:1 d8"),
    ("long", "a tenth noise"),
    ("long", "+ one-hot of 20"),
    ("long", "Student t, 2 degrees"),
    ("long", "one after another"),
    ("long", "all drift by two ranges"),
    ("shapes", "slanted"),
    ("shapes", "unequal"),
    ("shapes", "moons"),
    ("shapes", "rings"),
    ("shapes", "overlapping"),
    ("sets", "S1"),
    ("sets", "S2"),
    ("sets", "A1"),
    ("sets", "digits"),
    ("sets", "Segment"),
    ("sets", "Breast Cancer"),
)
"""Group and name in the gallery."""

LADDER = tuple((d, k) for d in (2, 8, 32, 128, 384, 768) for k in (10, 40))
"""Features and clusters of the unit vectors."""


class Stream(NamedTuple):
    """A stream by its name, and the draws of it."""

    group: str
    name: str
    draws: tuple[int, ...]

    def records(self, draw: int) -> Labelled:
        """Return a draw."""
        if self.group == "ladder":
            d, k = map(int, self.name.split(", "))
            return embeddings.unit_vectors(RECORDS, 13, d, k, draw)
        return named(self.group, self.name).generated(RECORDS, None)


@dataclass(frozen=True, slots=True)
class Line:
    """What a contestant reached on all draws of a stream with one setting.

    Attributes
    ----------
    ari : float or None
        Mean of the draws, of the second half of each; None where it took too long.
    spread : float
        Standard deviation of the draws.
    micros : float
        CPU time of a record.
    events : float or None
        For 1,000 records; None of a clusterer without events.
    refused : str
        Why there is no result.
    """

    group: str
    stream: str
    features: int
    clusters: int
    contestant: str
    setting: dict[str, Any]
    first: bool
    ari: float | None = None
    spread: float = 0.0
    micros: float = math.nan
    events: float | None = None
    refused: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the line as ``--json`` writes it."""
        return asdict(self)


def streams(groups: list[str]) -> list[Stream]:
    """Return the streams of some groups."""
    steps = [Stream("ladder", f"{d}, {k}", tuple(range(embeddings.DRAWS))) for d, k in LADDER]
    return [each for each in (*(Stream(*place, (0,)) for place in STREAMS), *steps) if each.group in groups]


def prepare() -> None:
    """Compile the engines."""
    for contestant in CONTESTANTS:
        if contestant.name in ENGINES:
            ENGINES[contestant.name].compile()


def contest(stream: Stream, contestant: Contestant) -> Iterator[Line]:
    """Yield the line of the setting for all streams, and that of the best of the sweep on the first draw."""
    first, *others = contestant.settings
    mine = measured(stream, contestant, first, stream.draws, first=True)
    yield mine
    if mine.refused or not others:
        return
    tried = [measured(stream, contestant, setting, stream.draws[:1], first=False) for setting in others]
    best = max(tried, key=lambda line: -1.0 if line.ari is None else line.ari)
    yield best if len(stream.draws) == 1 else measured(stream, contestant, best.setting, stream.draws, first=False)


def measured(stream: Stream, contestant: Contestant, setting: Setting, draws: tuple[int, ...], *, first: bool) -> Line:
    """Return what a contestant reaches with a setting."""
    aris: list[float] = []
    seconds, records, events = 0.0, 0, 0
    d = k = 0
    refused, knows_events = "", False
    for draw in draws:
        try:
            X, y = stream.records(draw)
            X = np.asarray(X, dtype=np.float64)
            d, k = X.shape[1], len(np.unique(y[y >= 0]))
            found = contestant.answer(X, k, setting, LIMIT)
        except TooSlowError as error:
            done, passed = error.args
            refused, seconds, records = "too slow", seconds + passed, records + done
            break
        except (RefusedError, ValueError, ArithmeticError) as error:
            refused = f"{type(error).__name__}: {error}"
            break
        aris.append(halved(y, found.groups))
        seconds, records = seconds + found.seconds, records + len(X)
        knows_events = found.events is not None
        events += found.events or 0
    return Line(
        stream.group,
        stream.name,
        d,
        k,
        contestant.name,
        dict(setting),
        first,
        statistics.mean(aris) if aris and not refused else None,
        statistics.pstdev(aris) if len(aris) > 1 else 0.0,
        1e6 * seconds / records if records else math.nan,
        1000 * events / records if knows_events else None,
        refused,
    )
