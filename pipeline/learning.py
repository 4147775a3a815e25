"""Rows to their stream's model, and what the bus is told about it."""

from dataclasses import dataclass

from resonance.engine.base import FloatArray
from resonance.pipeline import sizes
from resonance.pipeline.encoding import Encoder, Origins, StreamTexts
from resonance.pipeline.layout import Layout
from resonance.pipeline.model_health import ModelHealth
from resonance.pipeline.records import Message
from resonance.pipeline.settings import Settings
from resonance.pipeline.stream_model import Fed, StreamModel
from resonance.pipeline.streams import Streams


@dataclass(slots=True, eq=False)
class Learned:
    """What became of rows, and the messages about it; each with the position of the row that caused it.

    Attributes
    ----------
    fed : Fed
        What became of the rows.
    events : list of (int, Message)
        Events of clusters.
    """

    fed: Fed
    events: list[tuple[int, Message]]


class Learner:
    """Gives rows to the models of a partition and writes their events.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    where : str
        The input partition, for errors.
    encoder : Encoder
        Writes the events.
    streams : Streams
        The models.
    health : ModelHealth
        Sees what became of the rows.

    Attributes
    ----------
    event_bytes : int
        What the topic of the events takes in one message.
    """

    def __init__(self, settings: Settings, where: str, encoder: Encoder, streams: Streams, health: ModelHealth) -> None:
        self.event_bytes = sizes.EVENT_BYTES
        self._topic = settings.topic("cluster_events")
        self._where = where
        self._encoder = encoder
        self._streams = streams
        self._health = health
        self._texts: dict[str, StreamTexts] = {}

    def begin(self, key: bytes | None, layout: Layout) -> StreamModel:
        """Begin a stream.

        Raises
        ------
        ConfigurationError
            Its events would not fit into their topic, or the settings do not fit its features.
        """
        model = self._streams.begin(key, layout)
        self.check_events(model)
        return model

    def check_events(self, model: StreamModel) -> None:
        """Refuse features whose events would not fit into their topic.

        Raises
        ------
        ConfigurationError
            Naming the topic and the size that it must take.
        """
        if len(self._streams) == 1:
            # Those of a partition have the same features.
            sizes.check_events(model.preparation.columns, self._topic, self.event_bytes, self._where)

    def learn(
        self, model: StreamModel, rows: FloatArray, offsets: list[int], size: int, told: Origins | None
    ) -> Learned:
        """Give rows to a stream's model and return what became of them, with the events' messages.

        Parameters
        ----------
        model : StreamModel
            Has seen none of them.
        rows : ndarray of shape (n, features)
            The rows.
        offsets : list of int
            Their records.
        size : int
            Bytes of these.
        told : Origins or None
            The records that the events name as their causes, one for each row or one for all; None says nothing.
        """
        messages: list[tuple[int, Message]] = []
        texts = self.texts_of(model)
        if model.ended is not None:
            if told is not None:
                messages.append((0, self._encoder.version_started(model, model.ended, told, 0)))
                self._health.count("version_started")
            model.ended = None
            model.seq += 1
        fed = model.feed(rows)
        self._health.learned(model, fed, told=told is not None)
        for at, event in fed.events:
            if told is not None:
                cause = at if len(told.offsets) == len(rows) else 0
                messages.append((at, self._encoder.event(model, texts, event, told, cause)))
            model.seq += 1
        self._streams.learned(model, offsets, size)
        return Learned(fed, messages)

    def texts_of(self, model: StreamModel) -> StreamTexts:
        """Return the texts of a stream's present version."""
        texts = self._texts.get(model.name)
        if texts is None or texts.version != model.version:
            texts = self._texts[model.name] = StreamTexts(model.name, model.version, model.engine.depth)
        return texts
