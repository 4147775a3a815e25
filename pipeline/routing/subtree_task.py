"""The second hop of a keyed hierarchy: the subtrees of one partition of the routes."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
from resonance.pipeline import stops
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.logs import at
from resonance.pipeline.partition import FORMAT, PIECE, PartitionTask
from resonance.pipeline.records import Counts, Message, Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.routing.operation_records import Ask, AskRoute, read_ask
from resonance.pipeline.routing.subtree_model import SubtreeModel, answers
from resonance.pipeline.routing.subtrees import Subtrees
from resonance.pipeline.task.answers import Answered, in_order, through
from resonance.pipeline.task.encoding import Encoder, Origins, StreamTexts
from resonance.pipeline.task.event_encoding import Cause, EventEncoder
from resonance.pipeline.task.input import Decoded
from resonance.pipeline.task.learning import Learner, Telling
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.stream_model import Fed, StreamModel

_log = logging.getLogger(__name__)


class PartHealth(ModelHealth):
    """Counts clusters and events; what the answers say of the models is seen where the roots give them."""

    def learned(self, model: StreamModel, fed: Fed, *, told: bool) -> None:
        """Note the events of a subtree."""
        super().learned(model, Fed(events=fed.events), told=told)


class SubtreeTask(PartitionTask):
    """The subtrees whose messages stand in one partition of the routes.

    Answers, events and clusters go to the partition number of the record that caused them, and name its place.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    topic : str
        The topic of the routes.
    partition : int
        Partition of it.
    """

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        super().__init__(settings, topic, partition)
        self.health = PartHealth()
        self._subtrees = Subtrees(settings, topic, partition)
        self._streams = self._subtrees
        self._learner = Learner(settings, topic, partition, self._subtrees, self.health)
        self._answering = Encoder(settings, topic, partition)
        self._events = EventEncoder(settings, topic, partition)
        self._depth = settings.engine_class.make(settings.engine_parameters).depth
        self._texts: dict[str, StreamTexts] = {}
        self._strange = self._repeated = self._early = 0

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Carry out what messages ask, and answer the records that are answered here."""
        outputs = Outputs()
        self._take(records, outputs)
        return outputs

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Carry out again what messages ask, without any output."""
        self._take(records, None)

    def _take(self, records: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        self._records += len(records)
        for start in range(0, len(records), PIECE):
            piece = records[start : start + PIECE]
            routes = [route for record in piece if (route := read_ask(record)) is not None]
            if len(routes) < len(piece):
                if not self._strange:
                    _log.warning(
                        "%s: something else than messages to subtrees stands there, which is left aside; only workers "
                        "may write it",
                        self._where,
                        extra=at(self.topic, self.partition),
                    )
                self._strange += len(piece) - len(routes)
            if routes:
                self._carry_out(routes, outputs)

    def _carry_out(self, routes: Sequence[AskRoute], outputs: Outputs | None) -> None:
        origins = _origins(routes)
        asks = np.empty(len(routes), dtype=object)
        asks[:] = [route.ask for route in routes]
        groups: dict[bytes, list[int]] = {}
        plain: dict[str, list[int]] = {}
        for position, (record, ask) in enumerate(routes):
            if ask.number is None:
                plain.setdefault(f"{ask.stream}/{ask.version}", []).append(position)
            else:
                groups.setdefault(record.stream, []).append(position)
        given: list[Answered] = []
        events: list[tuple[int, Message]] = []
        clusters: list[tuple[int, Message]] = []
        telling = Telling.AGAIN if outputs is None else Telling.ALOUD
        for key, group in groups.items():
            for positions in _cut(asks, group):
                model = self._model_of(key, asks, positions, origins)
                if model is None:
                    continue
                fresh = [place for place in positions if origins.offsets[place] >= model.next]
                if not fresh:
                    continue
                own = origins.take(fresh)
                size = sum(len(routes[place].record.value or b"") for place in fresh)
                learned = self._learner.learn(model, asks[fresh], own.offsets, size, own, telling)
                if model.subtree.ended:
                    # Nothing will come whose time could tell when their tombstones are due.
                    cause = Cause(own, len(fresh) - 1)
                    last = [self._events.tombstone(name, cause) for name in model.lifetimes.all_ended()]
                    learned.clusters += [(cause.position, message) for message in last]
                    self._repeated += model.repeated
                    self._early += model.early
                    self._subtrees.remove(model)
                if outputs is not None:
                    events += [(fresh[place], message) for place, message in learned.events]
                    clusters += [(fresh[place], message) for place, message in learned.clusters]
                    if learned.fed.step is not None:
                        texts = self._learner.texts_of(model)
                        told = self._answering.assignments(texts, own.take(learned.fed.learned), learned.fed.step)
                        given.append((through(learned.fed.learned, fresh), told))
        if outputs is None:
            return
        for name, positions in plain.items():
            # Their nodes have no models below them yet.
            step = answers([asks[place] for place in positions], self._depth)
            texts = self._texts_of(name, asks[positions[0]])
            given.append((positions, self._answering.assignments(texts, origins.take(positions), step)))
        outputs.assignments += in_order(given, len(routes))
        for found, to in ((events, outputs.events), (clusters, outputs.clusters)):
            found.sort(key=lambda entry: entry[0])
            to += [message._replace(partition=routes[place].record.partition) for place, message in found]

    def _model_of(self, key: bytes, asks: Any, positions: list[int], origins: Origins) -> SubtreeModel | None:
        """Return the model of a subtree, a new one where its first message is among those at some positions."""
        known = self._subtrees.get(key)
        if isinstance(known, SubtreeModel):
            return known
        for place in positions:
            if asks[place].number == 0:
                model = self._subtrees.begin_below(asks[place])
                self._learner.check_events(model)
                # What stands before it belongs to nothing.
                model.next = origins.offsets[place]
                self._early += positions.index(place)
                return model
        # Of a subtree that is gone, read again; or one whose first message comes again.
        self._early += len(positions)
        return None

    def _texts_of(self, name: str, ask: Ask) -> StreamTexts:
        texts = self._texts.get(name)
        if texts is None:
            texts = self._texts[name] = StreamTexts(ask.stream, ask.version, self._depth)
        return texts

    @property
    def numbers(self) -> dict[str, int]:
        """How many messages each subtree was given."""
        present = [model for model in self._subtrees.models() if isinstance(model, SubtreeModel)]
        return {model.name: model.number for model in present}

    @property
    def repeats(self) -> int:
        """Messages that were dropped because they had come, or come again."""
        present = [model for model in self._subtrees.models() if isinstance(model, SubtreeModel)]
        return self._repeated + self._early + sum(model.repeated + model.early for model in present)

    @property
    def counts(self) -> Counts:
        """What was seen so far; may be asked for in another thread."""
        sizes = [model.snapshot_bytes for model in self._subtrees.models()]
        return Counts(self._records, self._strange, streams=len(sizes), snapshot_bytes=sum(sizes))

    # Snapshots

    def gone(self) -> list[str]:
        """Return the subtrees whose snapshots are to go, each once."""
        return self._subtrees.gone()

    @property
    def replay_from(self) -> int | None:
        """Lowest offset of a message that no snapshot contains; None when all are there."""
        return self._subtrees.replay_from

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the state of a subtree, which is clean then."""
        return self._subtrees.snapshot_of(stream)

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the state of every subtree; none counts as snapshotted by that."""
        return self._subtrees.all_states()

    def is_whole(self, position: int) -> bool:
        """Whether `states` hold what the messages below an offset left, and nothing else."""
        return all(model.next <= position for model in self._subtrees)

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Continue a subtree from a snapshot.

        Raises
        ------
        MismatchError
            The subtree was learned with other settings, which are named; or the state cannot be read.
        """
        self._subtrees.go_on(snapshot)
        model = self._subtrees.named(snapshot.stream)
        self.health.restored(model)
        self._learner.check_events(model)

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its subtrees, as JSON."""
        return orjson.dumps({"format": FORMAT, "first_version": self.first_version})

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`, before any subtree is restored.

        Raises
        ------
        MismatchError
            It cannot be read, or a newer release wrote it.
        """
        try:
            content = orjson.loads(state)
            if (found := int(content["format"])) > FORMAT:
                raise stops.newer_format(self._where, found, FORMAT)
            self.first_version = int(content["first_version"])
        except (ValueError, KeyError, TypeError):
            raise stops.unreadable(self._where, "the state of the partition") from None


def _cut(asks: Any, group: list[int]) -> Iterator[list[int]]:
    """Cut the positions of a subtree's messages behind each removal."""
    start = 0
    for number, place in enumerate(group, 1):
        if asks[place].removed or number == len(group):
            yield group[start:number]
            start = number


def _origins(routes: Sequence[AskRoute]) -> Origins:
    """Return the records that caused messages."""
    records = [route.record for route in routes]
    asks = [route.ask for route in routes]
    some_ids, some_copied = any(ask.id is not None for ask in asks), any(ask.included is not None for ask in asks)
    decoded = Decoded(
        list(range(len(asks))),
        np.empty((0, 0)),
        [ask.id or b"null" for ask in asks] if some_ids else None,
        [ask.time for ask in asks],
        [ask.included or "{}" for ask in asks] if some_copied else None,
        [],
    )
    return Origins.of(records, decoded)
