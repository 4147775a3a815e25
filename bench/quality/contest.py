"""What a contestant reaches on a stream."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from bench.quality.contestants import Contestant, Setting, TooSlowError
from bench.quality.streams import Stream
from bench.quality.task import RefusedError
from bench.streams import Classes

LIMIT = 0.002
"""CPU seconds of a record."""
NO_ANSWER = -1
ANSWERING = 0.005
"""Share of the second half's records that a cluster answers at least, to be counted as one that answers."""
NOTICEABLE = 0.01
"""Share of a novelty's records that a cluster of its own answers at least: an outlier is none."""

Answers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one stream with one contestant and setting; None where there is none.

    Attributes
    ----------
    first : bool
        Whether the setting is the one for all streams.
    ari : float or None
        Adjusted Rand index of the second half, noise left out.
    classes, answering, present : int or None
        Classes of the second half; clusters that answer a noticeable part of it; clusters at the end.
    largest : float or None
        Share of the second half that the largest cluster answers.
    events : float or None
        Events per 1,000 records of the second half.
    flap : float or None
        Share of the clusters made that were absorbed within 40,000 records.
    micros : float or None
        CPU time of a record.
    novelties : dict of str to int or None
        Of each novelty of the stream, its records until a cluster of its own answered.
    refused : str
        Why there are no figures.
    """

    group: str
    stream: str
    contestant: str
    setting: dict[str, Any]
    first: bool
    seed: int
    records: int = 0
    features: int = 0
    ari: float | None = None
    classes: int | None = None
    answering: int | None = None
    present: int | None = None
    largest: float | None = None
    events: float | None = None
    flap: float | None = None
    micros: float | None = None
    novelties: dict[str, int | None] = field(default_factory=dict)
    refused: str = ""


def measured(
    stream: Stream,
    contestant: Contestant,
    setting: Setting | None = None,
    length: float = 1.0,
    seed: int | None = None,
) -> Line:
    """Return what a contestant reaches with a setting, by itself the one for all streams."""
    given = contestant.settings[0] if setting is None else setting
    first = given == contestant.settings[0]
    at = stream.seed if seed is None else seed
    line = Line(stream.group, stream.name, contestant.name, dict(given), first, at)
    try:
        X, y = stream.generated(length, seed)
        line = replace(line, records=len(X), features=X.shape[1])
        found = contestant.answer(X, len(np.unique(y[y >= 0])), given, LIMIT * len(X))
    except TooSlowError as error:
        learned, seconds = error.args
        return replace(line, micros=1e6 * seconds / max(1, learned), refused="too slow")
    except (RefusedError, ValueError, ArithmeticError) as error:
        return replace(line, refused=str(error))
    answers, half = numbers(found.groups), len(y) // 2
    shares = np.bincount(answers[half:][answers[half:] != NO_ANSWER], minlength=1) / (len(y) - half)
    return replace(
        line,
        ari=halved(y, answers),
        classes=len(np.unique(y[half:][y[half:] >= 0])),
        answering=int((shares >= ANSWERING).sum()),
        present=found.present,
        largest=float(shares.max()),
        events=None if found.events is None else 1000 * found.events / (len(y) - half),
        flap=found.flap,
        micros=1e6 * found.seconds / len(y),
        novelties={name: first_of_their_own(answers, member) for name, member in stream.novelties(y).items()},
    )


def numbers(groups: Sequence[object]) -> Answers:
    """Return a number for each group, `NO_ANSWER` for None."""
    known: dict[object, int] = {None: NO_ANSWER}
    return np.array([known.setdefault(group, len(known) - 1) for group in groups], dtype=np.int64)


def halved(y: Classes, answers: Answers) -> float:
    """Return the ARI of the second half of a stream without its noise (class -1); no answer is one more group."""
    half = len(y) // 2
    kept: NDArray[np.bool_] = y[half:] >= 0
    return float(adjusted_rand_score(y[half:][kept], answers[half:][kept]))


def first_of_their_own(answers: Answers, member: NDArray[np.bool_]) -> int | None:
    """Return after how many records of a novelty, those of `member`, a cluster of its own answers one of them.

    A cluster is its own when it answered nothing before the first of them, at least `NOTICEABLE` of them later, and at
    least half of what it answers is of them. None: no cluster ever is.
    """
    if not member.any():
        return None
    onset = int(np.argmax(member))
    before = set(answers[:onset].tolist()) | {NO_ANSWER}
    late, late_member = answers[onset:], member[onset:]
    of_all, of_members = Counter(late.tolist()), Counter(late[late_member].tolist())
    own = [
        cluster
        for cluster, count in of_members.items()
        if cluster not in before and 2 * count >= of_all[cluster] and count >= NOTICEABLE * late_member.sum()
    ]
    return int(np.argmax(np.isin(late[late_member], own))) if own else None


def means(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the mean of each contestant over its streams, with its setting for all of them."""
    for name in dict.fromkeys(line.contestant for line in lines):
        mine = [line for line in lines if line.contestant == name and line.first]
        several = [line.ari for line in mine if line.ari is not None and line.classes != 1]
        single = [line.largest for line in mine if line.largest is not None and line.classes == 1]
        events = [line.events for line in mine if line.events is not None]
        flaps = [line.flap for line in mine if line.flap is not None]
        yield Line(
            mine[0].group,
            f"mean of {len(mine)}",
            name,
            {},
            True,
            0,
            ari=statistics.mean(several) if several else None,
            largest=statistics.mean(single) if single else None,
            events=statistics.mean(events) if events else None,
            flap=statistics.mean(flaps) if flaps else None,
        )
