"""From what a root asks of the models below its nodes to messages on the routes."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import orjson
from resonance.engine import Operations
from resonance.engine.base import Step
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.files.partitioner import partition_of
from resonance.pipeline.records import Message
from resonance.pipeline.routing.operation_records import NUMBER_BYTES, VECTORS_BYTES, ask_bytes, part_name
from resonance.pipeline.routing.route_records import KEY, REST_BYTES, SOURCE
from resonance.pipeline.task.encoding import KEPT, Origins
from resonance.pipeline.task.sizes import ANSWER_BYTES
from resonance.pipeline.task.sparse_preparation import SparsePreparation
from resonance.pipeline.task.stream_model import Asked, Fed, StreamModel

_NOVEL: Final = (b",false]", b",true]")

_FRAME: Final = 3_000
"""What else a message has, in bytes."""


class _Way(NamedTuple):
    """Where a subtree is reached: the key of its messages, how they begin, and their partition."""

    key: bytes
    head: bytes
    partition: int


@dataclass(slots=True, eq=False)
class _Columns:
    """Operations as lists, of which single members are taken quickly; `most` fit into one message."""

    records: list[int]
    nodes: list[int]
    removed: list[bool]
    answered: list[bool]
    labels: list[int]
    labelled: bool
    texts: list[bytes]
    most: int

    @classmethod
    def of(cls, operations: Operations, *, told: bool) -> Self:
        return cls(
            operations.record.tolist(),
            operations.node.tolist(),
            operations.removed.tolist(),
            operations.answered.tolist(),
            operations.label.tolist(),
            bool((operations.label >= 0).any()),
            _rows_of(operations.vector) if told else [],
            max(1, VECTORS_BYTES // (NUMBER_BYTES * max(1, operations.vector.shape[1]))),
        )


class Sender:
    """Writes the messages of the roots of one input partition.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    topic : str
        Input topic.
    partition : int
        Partition of it.
    routes : int
        Partitions of the topic of the routes.
    """

    def __init__(self, settings: Settings, topic: str, partition: int, routes: int) -> None:
        self._place = b'["%b",%d,' % (topic.encode(), partition)
        self._where = f"{topic}[{partition}]"
        self._routes = routes
        self._most = ask_bytes(settings)
        self._ways: dict[tuple[str, int, int], _Way] = {}
        # Of each model what its subtrees need to describe clusters in the units of the input.
        self._preparations: dict[str, tuple[int, bytes]] = {}

    def send(
        self, model: StreamModel, own: Origins, fed: Fed, wanted: Sequence[bool], *, alone: bool, told: bool
    ) -> list[tuple[int, Message]]:
        """Return the messages that follow from rows, each with the position of the row that caused it.

        Parameters
        ----------
        model : StreamModel
            The stream's; counts what each subtree was sent.
        own : Origins
            The records of the rows.
        fed : Fed
            What became of the rows.
        wanted : sequence of bool
            Which of the learned rows are answered; the others were, or need not be.
        alone : bool
            `own` is the one record that caused everything, and no row is answered now.
        told : bool
            Without it the messages were sent before and are only counted.
        """
        messages: list[tuple[int, Message]] = []
        for asked in fed.asked:
            if asked.answered and fed.step is not None and not alone:
                self._answering(model, own, asked, fed.step, wanted, messages, told)
            else:
                self._asking(model, own, asked, messages, told, alone=alone)
        return messages

    def _answering(
        self,
        model: StreamModel,
        own: Origins,
        asked: Asked,
        step: Step,
        wanted: Sequence[bool],
        messages: list[tuple[int, Message]],
        told: bool,
    ) -> None:
        """Send each learned record to the subtree of its node, with what it asks there and of others."""
        columns = _Columns.of(asked.operations, told=told)
        records, nodes, count, at = columns.records, columns.nodes, len(columns.records), 0
        clusters, paths = step.cluster[:, 0].tolist(), step.path[:, 0].tolist()
        novel = step.novel.tolist()
        scores = orjson.dumps(step.score, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",") if told else []
        for t, place in enumerate(asked.places):
            own_node, first = paths[t], at
            while at < count and records[at] == t:
                at += 1
            answer = b""
            if told and wanted[t]:
                answer = b',"answer":[%d,%b%b' % (clusters[t], scores[t], _NOVEL[novel[t]])
            if at == first + 1 and nodes[first] == own_node:
                # Nearly always.
                self._message(model, own, place, place, own_node, columns, [first], answer, messages, told)
                continue
            groups: dict[int, list[int]] = {own_node: []}
            for each in range(first, at):
                groups.setdefault(nodes[each], []).append(each)
            for node, some in groups.items():
                reply = answer if node == own_node else b""
                if reply or some:
                    self._message(model, own, place, place, node, columns, some, reply, messages, told)

    def _asking(
        self,
        model: StreamModel,
        own: Origins,
        asked: Asked,
        messages: list[tuple[int, Message]],
        told: bool,
        *,
        alone: bool,
    ) -> None:
        """Send what follows from records that were answered before, or with one that is answered elsewhere."""
        columns = _Columns.of(asked.operations, told=told)
        groups: dict[tuple[int, int], list[int]] = {}
        for at, (record, node) in enumerate(zip(columns.records, columns.nodes, strict=True)):
            groups.setdefault((0 if alone else asked.places[record], node), []).append(at)
        for (place, node), some in groups.items():
            row = place if not alone else asked.places[0]
            self._message(model, own, place, row, node, columns, some, b"", messages, told)

    def _message(
        self,
        model: StreamModel,
        own: Origins,
        place: int,
        row: int,
        node: int,
        columns: "_Columns",
        some: list[int],
        answer: bytes,
        messages: list[tuple[int, Message]],
        told: bool,
    ) -> None:
        """Send one subtree what one record asks of it, cut where it is long."""
        pieces = [some] if len(some) <= columns.most else _cut(some, columns.most)
        if some and node not in model.sent:
            # A subtree begins.
            pieces.insert(0, [])
        for piece in pieces:
            count = model.sent.get(node, 0) if some else None
            if count is not None:
                model.sent[node] = count + 1
            removed = bool(piece) and columns.removed[piece[-1]]
            if removed:
                del model.sent[node]
            if told:
                last = piece is pieces[-1]
                value = self._value(model, own, place, columns, piece, count, answer if last else b"", removed)
                way = self._way(model, node)
                headers: list[tuple[str, bytes | None]] = [
                    (SOURCE, self._place + b"%d]" % own.offsets[place]),
                    (KEY, own.keys[place]),
                ]
                if own.traces is not None and (trace := own.traces[place]) is not None:
                    headers.append(("traceparent", trace))
                messages.append((row, Message(way.key, way.head + value, headers, way.partition)))

    def _value(
        self,
        model: StreamModel,
        own: Origins,
        place: int,
        columns: "_Columns",
        piece: list[int],
        count: int | None,
        answer: bytes,
        removed: bool,
    ) -> bytes:
        """Return a message behind what all messages to its subtree begin with."""
        parts = [b"null" if count is None else b"%d" % count, b',"time":"%b"' % own.times[place].encode()]
        if own.ids is not None:
            parts += [b',"id":', own.ids[place]]
        if answer:
            parts.append(answer)
            if own.included is not None:
                parts += [b',"include":', own.included[place].encode()]
        learned = piece[:-1] if removed else piece
        if learned:
            parts.append(b',"vectors":[[%b]]' % b"],[".join([columns.texts[i] for i in learned]))
            if columns.labelled:
                parts.append(b',"labels":%b' % orjson.dumps([columns.labels[i] for i in learned]))
            if answer:
                parts += [b',"answered":%d' % at for at, i in enumerate(learned) if columns.answered[i]]
        if removed:
            parts.append(b',"removed":true')
        if count == 0:
            parts.append(b',"preparation":"%b"' % self._preparation(model))
        parts.append(b"}")
        return b"".join(parts)

    def _way(self, model: StreamModel, node: int) -> "_Way":
        """Return where a subtree is reached."""
        place = (model.name, model.version, node)
        way = self._ways.get(place)
        if way is None:
            if len(self._ways) >= KEPT:
                self._ways.clear()
            key = part_name(model.stream, model.version, node).encode()
            head = b'{"stream":"%b","version":%d,"node":%d,"number":' % (model.stream.encode(), model.version, node)
            way = self._ways[place] = _Way(key, head, partition_of(key, self._routes))
        return way

    def _preparation(self, model: StreamModel) -> bytes:
        """Return what a new subtree of a stream must know, as text; refuse features that no message has room for."""
        known = self._preparations.get(model.name)
        if known is None or known[0] != model.version:
            if isinstance(model.preparation, SparsePreparation):
                raise TypeError("the engine of a hierarchy takes no sparse records")
            text = base64.b64encode(model.preparation.frozen_state())
            columns = len(model.preparation.columns)
            needed = max(max(VECTORS_BYTES, NUMBER_BYTES * columns) + ANSWER_BYTES, len(text)) + _FRAME
            if needed > self._most:
                raise ConfigurationError(
                    f"{self._where}: with hierarchy = keyed a record of {columns:,} columns can have {needed:,} bytes "
                    f"on the routes, which take {self._most:,} now; raise limits.record_bytes to "
                    f"{needed - REST_BYTES:,}, use fewer features (input.features), or choose hierarchy = local"
                )
            known = self._preparations[model.name] = (model.version, text)
        return known[1]


def _cut(some: list[int], most: int) -> list[list[int]]:
    return [some[at : at + most] for at in range(0, len(some), most)]


def _rows_of(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[bytes]:
    """Return the rows as JSON without their brackets."""
    if not vectors.size:
        return [b""] * len(vectors)
    return orjson.dumps(np.ascontiguousarray(vectors), option=orjson.OPT_SERIALIZE_NUMPY)[2:-2].split(b"],[")
