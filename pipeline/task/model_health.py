"""Quality of a partition's models, measured on their latest assignments.

The figures cover a sliding window of assignments and are computed on request. Learning only hands over arrays that it
has anyway. Nothing here is part of a state or changes an output; after a restore the window begins with the records
that were learned again.
"""

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray, Step
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.range_changes import RangeChanges

WINDOW: Final = 10_000
"""Assignments that the figures cover."""

BLOCK: Final = 256
"""Fewest assignments that are joined: those of many small streams would take more memory and time one by one."""

CLUSTER_BITS: Final = 40
"""Bits of a cluster's number beside its stream's in one integer."""


NUMBERS: Final = 1 << 63 - CLUSTER_BITS
"""Numbers of streams; when one comes again, the window has long left behind the stream that had it."""


class _AnswerCounts(NamedTuple):
    """A step of a stream's model, and how many of its values were compared with its ranges, and outside."""

    stream: int
    step: Step
    compared: int
    outside: int


class _Block(NamedTuple):
    """Assignments in their order: first `counts[0]` of the stream `streams[0]`, and so on."""

    streams: list[int]
    counts: list[int]
    nodes: IntArray
    clusters: IntArray
    scores: FloatArray
    novel: BoolArray
    compared: int
    outside: int


class _Change(NamedTuple):
    """An event of a first-level cluster, before the assignment at a position."""

    position: int
    stream: int
    kind: str
    cluster: int
    other: int


@dataclass(slots=True)
class _Seen:
    """A stream's number here, and how many of its values have been compared with its ranges, and were outside."""

    number: int
    compared: int = 0
    outside: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of the window; None where the window holds nothing to compute one from."""

    records: int = 0
    """Assignments in the window: records that were learned at once, without those of warm-ups."""
    novelty: float | None = None
    """Share of the records that were unlike what the model knew."""
    largest_cluster: float | None = None
    """Of the records with a cluster, the share in the largest cluster of their stream."""
    score: float | None = None
    """Mean score of the records that have one."""
    out_of_scale: float | None = None
    """Share of the values outside their frozen range."""
    churn: float | None = None
    """Share of the records whose node had another cluster before, where no event explains the change: see
    `ModelHealth`."""


@dataclass(slots=True)
class ModelHealth:
    """Measures the quality of the assignments of one partition.

    Churn counts records of the window. A record takes part if its first-level node gave a cluster to an earlier record
    of the window. The record that founded the node does not count as such, because it was assigned before the node
    existed. The cluster of the last such record is followed through the events between the two assignments: absorbed,
    it is the other cluster; split, it is both parts; vanished, it is none. The record churned if its own cluster is
    none of these: the cluster changed without an event. If no record takes part, there is no share.
    """

    window: int = WINDOW
    """Assignments that the figures cover."""
    clusters: int = 0
    """Present clusters of all streams, on all levels."""
    events: Counter[str] = field(default_factory=Counter)
    """Number of emitted events by kind."""
    drifts: Counter[str] = field(default_factory=Counter)
    """Number of emitted drift events by kind."""
    alerts: Counter[str] = field(default_factory=Counter)
    """Number of emitted alerts by rule."""
    open_alerts: Counter[str] = field(default_factory=Counter)
    """Number of open alerts by rule."""
    ranges: RangeChanges = field(default_factory=RangeChanges)
    """How often features left the range of their scale."""
    _fresh: list[_AnswerCounts] = field(default_factory=list)
    _fresh_rows: int = 0
    _blocks: deque[_Block] = field(default_factory=deque)
    _rows: int = 0
    _end: int = 0
    _changes: deque[_Change] = field(default_factory=deque)
    _streams: dict[str, _Seen] = field(default_factory=dict)
    _met: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def restored(self, model: StreamModel) -> None:
        """Take over a stream that continues from a snapshot."""
        self.clusters += len(model.engine.clusters())
        self.loaded(model)

    def loaded(self, model: StreamModel) -> None:
        """Take note of a model that comes into memory."""
        preparation = model.preparation
        self._meet(model.name, preparation.compared, preparation.outside)

    def evicted(self, model: StreamModel) -> None:
        """Forget a model that leaves memory; its assignments stay in the window."""
        self._streams.pop(model.name, None)

    def ended(self, model: StreamModel) -> None:
        """Take note of a stream that has ended."""
        self.clusters -= len(model.engine.clusters())
        self.ranges.ended(model.name)
        self.evicted(model)

    def _meet(self, name: str, compared: int = 0, outside: int = 0) -> _Seen:
        seen = self._streams[name] = _Seen(self._met, compared, outside)
        self._met = (self._met + 1) % NUMBERS
        return seen

    def learned(self, model: StreamModel, result: LearnResult, *, emitted: bool) -> None:
        """Note what became of the rows that a model has learned; `emitted`: their outputs are emitted."""
        for _, event in result.events:
            self.clusters += 1 if event.kind in ("emerged", "split") else -1
            if emitted:
                self.events[event.kind] += 1
        if result.looked:
            self.ranges.looked(model.name)
        step = result.step
        if step is None:
            return
        seen = self._streams.get(model.name) or self._meet(model.name)
        compared, outside = model.preparation.compared, model.preparation.outside
        with self._lock:
            self._fresh.append(_AnswerCounts(seen.number, step, compared - seen.compared, outside - seen.outside))
            seen.compared, seen.outside = compared, outside
            self._fresh_rows += len(step.novel)
            if self._fresh_rows >= BLOCK:
                self._join()

    def _join(self) -> None:
        """Join the fresh assignments into a block, and drop the blocks that the window has left behind."""
        fresh, self._fresh, self._fresh_rows = self._fresh, [], 0
        streams, counts, compared, outside = [], [], 0, 0
        for stream, step, own_compared, own_outside in fresh:
            streams.append(stream)
            compared += own_compared
            outside += own_outside
            for event in step.events:
                if event.path == ():
                    other = -1 if event.other is None else event.other
                    # The record that caused an event got its assignment before the event.
                    position = self._end + event.index + 1
                    self._changes.append(_Change(position, stream, event.kind, event.cluster, other))
            counts.append(len(step.novel))
            self._end += counts[-1]
        steps = [answers.step for answers in fresh]
        block = _Block(
            streams,
            counts,
            _joined([step.path for step in steps])[:, 0],
            _joined([step.cluster for step in steps])[:, 0],
            _joined([step.score for step in steps]),
            _joined([step.novel for step in steps]),
            compared,
            outside,
        )
        self._blocks.append(block)
        self._rows += len(block.novel)
        while self._rows - len(self._blocks[0].novel) >= self.window:
            self._rows -= len(self._blocks.popleft().novel)
        while self._changes and self._changes[0].position <= self._end - self._rows:
            self._changes.popleft()

    def figures(self) -> Figures:
        """Return the figures of the window; safe to call from another thread."""
        with self._lock:
            if self._fresh:
                self._join()
            blocks, changes, end = tuple(self._blocks), tuple(self._changes), self._end
        if not blocks:
            return Figures()
        numbers, counts, *columns = list(zip(*blocks, strict=True))[:6]
        streams = np.repeat(np.concatenate(numbers), np.concatenate(counts))[-self.window :]
        nodes, clusters, scores, novel = (np.concatenate(column)[-self.window :] for column in columns)
        known = scores[~np.isnan(scores)]
        compared = sum(block.compared for block in blocks)
        return Figures(
            records=len(novel),
            novelty=float(novel.mean()),
            largest_cluster=_largest(streams, clusters),
            score=float(known.mean()) if len(known) else None,
            out_of_scale=sum(block.outside for block in blocks) / compared if compared else None,
            churn=_churn(streams, nodes, clusters, novel, changes, end - len(novel)),
        )


def _joined(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _largest(streams: IntArray, clusters: IntArray) -> float | None:
    """Return, of the records with a cluster, the share in the largest cluster of their stream."""
    has = clusters >= 0
    if not has.any():
        return None
    found, counts = np.unique((streams[has] << CLUSTER_BITS) + clusters[has], return_counts=True)
    _, firsts = np.unique(found >> CLUSTER_BITS, return_index=True)
    return float(np.maximum.reduceat(counts, firsts).sum() / counts.sum())


def _churn(
    streams: IntArray,
    nodes: IntArray,
    clusters: IntArray,
    novel: BoolArray,
    changes: Sequence[_Change],
    first: int,
) -> float | None:
    """Return the share of the records whose cluster changed without an event; `first` is the first one's position."""
    # The sort is stable, so the assignments of each node stand together, in their order.
    order = np.lexsort((nodes, streams))
    before, now = order[:-1], order[1:]
    takes_part = (streams[before] == streams[now]) & (nodes[before] == nodes[now])
    # A record that is only predicted has no node: -1.
    takes_part &= (clusters[before] >= 0) & ~novel[before] & (nodes[before] >= 0)
    count = int(takes_part.sum())
    if not count:
        return None
    differs = takes_part & (clusters[before] != clusters[now])
    by_stream: dict[int, list[_Change]] = {}
    for change in changes:
        by_stream.setdefault(change.stream, []).append(change)
    places = {stream: np.array([c.position for c in some]) for stream, some in by_stream.items()}
    churned, explained = 0, dict[tuple[int, ...], bool]()
    for old, new in zip(before[differs].tolist(), now[differs].tolist(), strict=True):
        stream, was, is_ = int(streams[old]), int(clusters[old]), int(clusters[new])
        if stream not in places:
            churned += 1
            continue
        # An event at the position of an assignment came before it.
        start, stop = np.searchsorted(places[stream], (first + old, first + new), side="right").tolist()
        case = (stream, was, is_, start, stop)
        if case not in explained:
            explained[case] = is_ in _heirs(was, by_stream[stream][start:stop])
        churned += not explained[case]
    return churned / count


def _heirs(cluster: int, changes: Sequence[_Change]) -> set[int]:
    """Return the clusters that a cluster became through changes; -1 stands for none."""
    heirs = {cluster}
    for change in changes:
        if change.kind == "split" and change.other in heirs:
            heirs.add(change.cluster)
        elif change.kind in ("absorbed", "vanished") and change.cluster in heirs:
            heirs.remove(change.cluster)
            heirs.add(change.other)
    return heirs
