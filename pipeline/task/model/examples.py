"""The most typical records of late of each cluster of a stream's first level, by id and place."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.engine.base import Step
from resonance.pipeline import exact_json
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.schemas import ClusterExample
from resonance.schemas.common import place_of

EXAMPLES: Final = 3
"""Records that are kept of each cluster."""

BLOCK_OFFSETS: Final = 16_384
"""Offsets of the learned log in which a cluster's best records compete; older ones only fill up what is missing."""

ID_BYTES: Final = 200
"""Bytes of the longest id that is kept; a record is found by its place."""

_FEW: Final = 32
"""Records below which a kernel takes longer than a loop."""


class _Typical(NamedTuple):
    """A record that was assigned to a cluster."""

    score: float
    offset: int
    """In the topic that it was read from first."""
    place: TopicPartition | None
    """Topic and partition; None for those of the task."""
    id: str | None
    """As JSON; None where it is too long, or records have none."""
    element: int | None = None
    """Which record of its message it is; None where it is the message."""

    def state(self) -> list[Any]:
        """Return it for JSON."""
        return list(self[:4] if self.element is None else self)


class _OfCluster:
    """The best records of one cluster: those of its last block, and of the block before as far as these are few."""

    __slots__ = ("before", "best", "block")

    def __init__(self, block: int, best: list[_Typical], before: list[_Typical]) -> None:
        self.block, self.best, self.before = block, best, before

    def add(self, block: int, score: float) -> int | None:
        """Return where a record enters the best ones, best first; None where it does not."""
        if block != self.block:
            self.before, self.best, self.block = self.all(), [], block
        best = self.best
        # Of equal scores the first one stays. Most records are no better than the last.
        if len(best) == EXAMPLES and score <= best[-1].score:
            return None
        return next((at for at, each in enumerate(best) if score > each.score), len(best))

    def is_full(self, block: int) -> bool:
        """Return whether a record of a block must be better than one of them."""
        return self.block == block and len(self.best) == EXAMPLES

    def all(self) -> list[_Typical]:
        return [*self.best, *self.before][:EXAMPLES]


class Examples:
    """The best records of each cluster, a function of the log alone: how it is cut into batches does not matter.

    Each record counts for the cluster that it was assigned to. A cluster that is split has none until the next record,
    because it is not known to which side they belong.
    """

    __slots__ = ("_clusters",)

    def __init__(self) -> None:
        self._clusters: dict[int, _OfCluster] = {}

    def take(
        self, step: Step, learned: Sequence[int], batch: RecordBatch, places: Sequence[int], start: int, stop: int
    ) -> None:
        """Take in the rows from `start` to `stop`, which stand at `places` of a batch; `step` is of `learned`."""
        first, end = bisect_left(learned, start), bisect_left(learned, stop)
        while first < end:
            # Records of one block at a time.
            block = batch.offsets[places[learned[first]]] // BLOCK_OFFSETS
            behind = (block + 1) * BLOCK_OFFSETS
            last = bisect_left(learned, behind, first, end, key=lambda row: batch.offsets[places[row]])
            for at in self._candidates(step, first, last, block):
                self._add(int(step.cluster[at, 0]), float(step.score[at]), block, batch, places[learned[at]])
            first = last

    def _candidates(self, step: Step, first: int, last: int, block: int) -> Sequence[int]:
        """Return the records of a range that may be among the best of their clusters, by position in the step."""
        cluster = step.cluster[first:last, 0]
        if last - first <= _FEW:
            return [at for at, number in enumerate(cluster.tolist(), first) if number >= 0]
        # Once a cluster has enough of a block, few records are above the least of them.
        numbers = sorted(self._clusters if len(self._clusters) < len(cluster) else {*cluster.tolist()})
        there = ((number, self._clusters.get(number)) for number in numbers)
        full = {number: own.best[-1].score for number, own in there if own is not None and own.is_full(block)}
        known = np.array([*full], dtype=np.int64), np.array([*full.values()], dtype=np.float64)
        return [first + at for at in best_of(cluster, step.score[first:last], *known)]

    def _add(self, cluster: int, score: float, block: int, batch: RecordBatch, position: int) -> None:
        own = self._clusters.get(cluster)
        if own is None:
            own = self._clusters[cluster] = _OfCluster(block, [], [])
        if (at := own.add(block, score)) is None:
            return
        sources = batch.sources
        place = None if sources is None else sources.places[position]
        offset = (batch.offsets if sources is None else sources.offsets)[position]
        text = None if batch.ids is None or len(batch.ids[position]) > ID_BYTES else batch.ids[position].decode()
        element = None if batch.elements is None else batch.elements[position]
        own.best.insert(at, _Typical(score, offset, place, text, element))
        del own.best[EXAMPLES:]
        # As many of the block before as are still missing.
        del own.before[EXAMPLES - len(own.best) :]

    def drop(self, cluster: int) -> None:
        """Forget the records of a cluster that ended or was split."""
        self._clusters.pop(cluster, None)

    def of(self, cluster: int, own: TopicPartition) -> list[ClusterExample]:
        """Return the records of a cluster, the most typical first; `own` is the task's partition."""
        found = self._clusters.get(cluster)
        records = [] if found is None else sorted(found.all(), key=lambda each: -each.score)
        return [
            {
                "id": None if each.id is None else exact_json.loads(each.id),
                "source": place_of(*place, each.offset, each.element),
                "score": each.score,
            }
            for each, place in ((each, each.place or own) for each in records)
        ]

    def state(self) -> list[Any]:
        """Return the records for JSON."""
        return [
            [cluster, own.block, *([each.state() for each in some] for some in (own.best, own.before))]
            for cluster, own in sorted(self._clusters.items())
        ]

    @classmethod
    def from_state(cls, content: Any) -> "Examples":
        """Continue from a `state`."""
        made = cls()
        for cluster, block, best, before in content:
            made._clusters[int(cluster)] = _OfCluster(
                int(block), list(map(_typical, best)), list(map(_typical, before))
            )
        return made


def best_of(
    cluster: NDArray[np.int64], score: NDArray[np.float64], full: NDArray[np.int64], least: NDArray[np.float64]
) -> list[int]:
    """Return, in order, the records that are among the `EXAMPLES` best of their clusters; -1 is no cluster.

    Of the clusters `full`, ascending, only records above the score `least` count. Of equal scores the first is better.
    """
    bound = np.full(len(cluster), -np.inf)
    if len(full):
        place = np.minimum(np.searchsorted(full, cluster), len(full) - 1)
        bound = np.where(full[place] == cluster, least[place], bound)
    wanted = np.flatnonzero((cluster >= 0) & ~(score <= bound))
    order = wanted[np.lexsort((-score[wanted], cluster[wanted]))]
    chosen = np.ones(len(order), np.bool_)
    chosen[EXAMPLES:] = cluster[order[EXAMPLES:]] != cluster[order[:-EXAMPLES]]
    positions: list[int] = np.sort(order[chosen]).tolist()
    return positions


def _typical(content: Any) -> _Typical:
    score, offset, place, id_, *rest = content
    element = int(rest[0]) if rest else None
    if not 0.0 <= float(score) <= 1.0 or int(offset) < 0 or (element or 0) < 0:
        raise ValueError(f"score {score}, offset {offset}, record {element} of its message")
    if id_ is not None:
        orjson.loads(id_)
    return _Typical(float(score), int(offset), None if place is None else (str(place[0]), int(place[1])), id_, element)
