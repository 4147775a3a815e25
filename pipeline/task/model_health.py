"""Is the model still any good: what the latest answers of a partition say about its models.

The figures look at a sliding window of answers, and are computed when somebody asks. Learning only hands over the
arrays that it has anyway. Nothing here is part of a state or changes an output; after a restore the window begins
with the records that were learned again.
"""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray, Step
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel

WINDOW: Final = 10_000
"""Answers that the figures look at."""

BLOCK: Final = 256
"""Answers that are joined at least: those of many small streams would take more room and time one by one."""

CLUSTER_BITS: Final = 40
"""Room for a cluster's number beside its stream's in one integer."""


class _AnswerCounts(NamedTuple):
    """What a stream's model answered to some rows, and the values compared with its ranges so far."""

    stream: str
    step: Step
    compared: int
    outside: int


class _Block(NamedTuple):
    """Answers in the order in which they were given: `counts` of each of the `streams`, one behind the other."""

    streams: list[int]
    counts: list[int]
    nodes: IntArray
    clusters: IntArray
    scores: FloatArray
    novel: BoolArray
    compared: int
    outside: int


class _Change(NamedTuple):
    """An event of a cluster of the first level, before the answer at a position."""

    position: int
    stream: int
    kind: str
    cluster: int
    other: int


@dataclass(slots=True)
class _Seen:
    """A stream: its number here, and how many values had been compared with its ranges, and were outside."""

    number: int
    compared: int = 0
    outside: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """What the window says; None where nothing in it can tell.

    Attributes
    ----------
    records : int
        Answers of the window: records that were learned at once, warm-ups left out.
    novelty : float or None
        Share of them that were unlike what was known.
    largest_cluster : float or None
        Of those with a cluster, the share that has the largest of its stream.
    score : float or None
        Mean score of those that have one.
    out_of_scale : float or None
        Share of the values outside their frozen range.
    churn : float or None
        Share of the records that have another cluster than their node's answer before, and no event says why: see
        `ModelHealth`.
    """

    records: int = 0
    novelty: float | None = None
    largest_cluster: float | None = None
    score: float | None = None
    out_of_scale: float | None = None
    churn: float | None = None


@dataclass(slots=True)
class ModelHealth:
    """Watches the answers of one partition.

    Churn counts records of the window. A record takes part where its node of the first level answered an earlier
    record of the window with a cluster; the record that founded the node does not count as one, because it was
    answered before the node was there. The cluster of the last such answer is followed through the events that came
    between the two answers: absorbed, it is the other; split, it is both parts; vanished, it is none. The record
    churned where its cluster is none of these: it changed without a word. Where nothing takes part there is no share.

    Parameters
    ----------
    window : int
        Answers to look at.

    Attributes
    ----------
    clusters : int
        Present clusters of all streams, on all levels.
    events : dict of str to int
        Events that were told, by kind.
    """

    window: int = WINDOW
    clusters: int = 0
    events: dict[str, int] = field(default_factory=dict)
    _fresh: list[_AnswerCounts] = field(default_factory=list)
    _fresh_rows: int = 0
    _blocks: deque[_Block] = field(default_factory=deque)
    _rows: int = 0
    _end: int = 0
    _changes: deque[_Change] = field(default_factory=deque)
    _streams: dict[str, _Seen] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def restored(self, model: StreamModel) -> None:
        """Take over a stream that goes on from a snapshot."""
        self.clusters += len(model.engine.clusters())
        preparation = model.preparation
        self._streams[model.name] = _Seen(len(self._streams), preparation.compared, preparation.outside)

    def learned(self, model: StreamModel, fed: LearnResult, *, told: bool) -> None:
        """Note what became of a stream's rows.

        Parameters
        ----------
        model : StreamModel
            Has learned them.
        fed : LearnResult
            What became of them.
        told : bool
            They were answered; not so when they are learned again.
        """
        for _, event in fed.events:
            self.clusters += 1 if event.kind in ("emerged", "split") else -1
            if told:
                self.count(event.kind)
        step = fed.step
        if step is None:
            return
        preparation = model.preparation
        with self._lock:
            self._fresh.append(_AnswerCounts(model.name, step, preparation.compared, preparation.outside))
            self._fresh_rows += len(step.novel)
            if self._fresh_rows >= BLOCK:
                self._join()

    def count(self, kind: str) -> None:
        """Count an event that was told."""
        self.events[kind] = self.events.get(kind, 0) + 1

    def _join(self) -> None:
        """Make a block of the fresh answers; drop those that the window has left behind."""
        fresh, self._fresh, self._fresh_rows = self._fresh, [], 0
        streams, counts, compared, outside = [], [], 0, 0
        for name, step, compared_by_now, outside_by_now in fresh:
            seen = self._streams.get(name)
            if seen is None:
                seen = self._streams[name] = _Seen(len(self._streams))
            streams.append(seen.number)
            compared += compared_by_now - seen.compared
            outside += outside_by_now - seen.outside
            seen.compared, seen.outside = compared_by_now, outside_by_now
            for event in step.events:
                if event.path == ():
                    other = -1 if event.other is None else event.other
                    # The record that caused an event was answered before it.
                    position = self._end + event.index + 1
                    self._changes.append(_Change(position, seen.number, event.kind, event.cluster, other))
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
        """Return what the window says; may be asked for in another thread."""
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
    """Return the share of the records that have the largest cluster of their stream."""
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
    """Return the share of the records whose cluster changed without a word; `first` is the first one's position."""
    # Each node's answers one behind the other, in their order: the sort is stable.
    order = np.lexsort((nodes, streams))
    before, now = order[:-1], order[1:]
    takes_part = (streams[before] == streams[now]) & (nodes[before] == nodes[now])
    # No node learns what is only predicted.
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
        # An event at the position of an answer came before it.
        start, stop = np.searchsorted(places[stream], (first + old, first + new), side="right").tolist()
        case = (stream, was, is_, start, stop)
        if case not in explained:
            explained[case] = is_ in _heirs(was, by_stream[stream][start:stop])
        churned += not explained[case]
    return churned / count


def _heirs(cluster: int, changes: Sequence[_Change]) -> set[int]:
    """Return what a cluster became through changes: -1 stands for none."""
    heirs = {cluster}
    for change in changes:
        if change.kind == "split" and change.other in heirs:
            heirs.add(change.cluster)
        elif change.kind in ("absorbed", "vanished") and change.cluster in heirs:
            heirs.remove(change.cluster)
            heirs.add(change.other)
    return heirs
