"""Which source record an output is about, as the output itself states it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from resonance.pipeline.json_paths import json_or_none
from resonance.pipeline.records import Message, Record, TopicPartition, record_number


class OutputRef(NamedTuple):
    """The source record of an output, and what identifies the output among those of that message."""

    topic: str
    offset: int
    version: int = 0
    """Version of the model that emitted the output; 0 where it does not matter."""
    identity: tuple[Any, ...] = ()
    """Distinguishes and orders the outputs of one record."""
    partition: int = -1
    subject: tuple[str, ...] = ()
    """What the version is of: a record can have outputs about several streams, and about the end of one and what the
    stream's next life begins with."""
    element: int | None = None
    """Which record of its message it is; None where it is the message."""

    @property
    def place(self) -> int:
        """Its `record_number`."""
        return record_number(self.offset, self.element)

    @property
    def log(self) -> TopicPartition:
        """Topic and partition of the record."""
        return self.topic, self.partition


def assignment_ref(message: Message | Record) -> OutputRef | None:
    """Return the source record of an assignment, None for other records."""
    content = json_or_none(message.value)
    try:
        source = content["source"]
        own = _ref(source, content["version"])
        return _checked(own if own.element is None else own._replace(identity=(own.element,)))
    except (KeyError, TypeError):
        return None


def event_ref(message: Message | Record) -> OutputRef | None:
    """Return the source record of an event, None for other records."""
    content = json_or_none(message.value)
    try:
        source, version = content["cause"]["source"], content["version"]
        # The sequence number comes first, because it orders the events of one record.
        places = int(content.get("subtree", -1)), int(content.get("part", 1))
        stream, is_end = str(content["stream"]), content["kind"] == "stream_ended"
        identity = (int(content["seq"]), stream, version, *places)
        subject = (stream, "end") if is_end else (stream,)
        return _checked(_ref(source, version, identity)._replace(subject=subject))
    except (KeyError, TypeError, ValueError):
        return None


def alert_ref(message: Message | Record) -> OutputRef | None:
    """Return the source record of an alert, None for other records.

    An alert clears with the version under which it opened. So, unlike an `opened` one, a `cleared` message is not given
    up where its record has one of a later version: new models clear what was open with their first record.
    """
    ref = event_ref(message)
    if ref is None or json_or_none(message.value)["kind"] != "cleared":
        return ref
    return ref._replace(subject=(*ref.subject, "cleared", str(ref.version)))


def is_of_command(message: Message | Record) -> bool:
    """Whether a command, not a record, cleared the alert of a message."""
    return "reason" in json_or_none(message.value)


def _checked(ref: OutputRef) -> OutputRef | None:
    """Return the reference, or None where a foreign record has something else in place of numbers."""
    return ref if all(isinstance(n, int) for n in (ref.offset, ref.version, ref.partition, ref.element or 0)) else None


def _ref(source: Mapping[str, Any], version: int, identity: tuple[Any, ...] = ()) -> OutputRef:
    place = source["topic"], source["offset"], version, identity, source["partition"]
    return OutputRef(*place, element=source.get("index"))


def dead_letter_ref(name: str) -> Callable[[Message | Record], OutputRef | None]:
    """Return the function that finds the source record of a dead letter of a deployment."""
    parts = ("topic", "partition", "offset", "index", "version", "decided_by", "class")
    topic, partition, offset, index, version, decided_by, kind = (f"{name}.error.{part}" for part in parts)

    def ref(message: Message | Record) -> OutputRef | None:
        # A dead letter that was replayed and failed again has these headers twice; the last topic begins its own.
        names = [header for header, _ in message.headers]
        try:
            headers = dict(message.headers[len(names) - 1 - names[::-1].index(topic) :])
            number, of_version = int(headers.get(partition) or b"-1"), int(headers.get(version) or b"0")
            place = (headers[topic] or b"").decode(), int(headers[offset] or b"")
            element = None if (text := headers.get(index)) is None else int(text)
            own = OutputRef(*place, of_version, () if element is None else (element,), number, element=element)
            if (decided := headers.get(decided_by)) is None:
                return own
            # A later record decides about a label that waited. Labels that waited too long come last.
            decider, decided_in, decided_at = decided.decode().rsplit("-", 2)
            at, _, its = decided_at.partition(".")
            identity = (headers.get(kind) == b"too_late", own.topic, number, own.offset)
            decisive = int(its) if its else None
            return OutputRef(decider, int(at), of_version, identity, int(decided_in), element=decisive)
        except (KeyError, ValueError):
            return None

    return ref


def dead_letter_history(name: str) -> frozenset[str]:
    """Return the headers that name the lineage of a dead letter, which earlier releases did not write."""
    return frozenset((f"{name}.error.topic_id", f"{name}.error.version"))
