"""How two outputs differ, member by member."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from resonance.pipeline.records import Message, Record
from resonance.pipeline.replay.sinks import as_text

SHOWN: Final = 20
"""Members that are listed at most."""


@dataclass(slots=True)
class OutputDifference:
    """The first place where a record and its replay part.

    Attributes
    ----------
    kind : str
        Kind of topic: ``assignments``, ``cluster_events`` or ``dead_letters``.
    topic : str
        The output topic.
    partition : int
        Partition of it, and of the input.
    offset : int
        Of the input record that it is about.
    what : {"other", "missing", "surplus", "repeated", "reordered"}
        Something else is recorded; nothing is; something that the replay does not say; two things are; the same is,
        before what is said of an earlier record.
    members : list of (str, object, object)
        What differs: the member's path, its recorded and its replayed value; None where it is not there.
    about : str
        The record that it is about, where that is none of this partition of the input; ``""`` where it is.
    """

    kind: str
    topic: str
    partition: int
    offset: int
    what: str
    members: list[tuple[str, Any, Any]] = field(default_factory=list)
    about: str = ""

    def sentences(self, source: str) -> list[str]:
        """Return the difference as text, one line for each member.

        Parameters
        ----------
        source : str
            The input topic.
        """
        where = f"{self.topic}[{self.partition}], about {self.about or f'{source}[{self.partition}]@{self.offset}'}"
        texts = {
            "other": "is recorded otherwise than it is replayed",
            "missing": "is replayed, but not recorded",
            "surplus": "is recorded, but not replayed",
            "repeated": "is recorded twice, differently",
            "reordered": "is recorded before what is said about an earlier record",
        }
        return [f"{where}: {texts[self.what]}"] + [
            f"  {path}: recorded {_shown(recorded)}, replayed {_shown(replayed)}"
            for path, recorded, replayed in self.members
        ]


def compare(recorded: Sequence[Message | Record], replayed: Sequence[Message | Record]) -> tuple[str, list[Any]]:
    """Return how the outputs of one kind about one record differ.

    Parameters
    ----------
    recorded, replayed : sequence of Message or Record
        In their order; the recorded ones each once.

    Returns
    -------
    what : str
        As in `OutputDifference`.
    members : list of (str, object, object)
        What differs in the first ones that do.
    """
    for ours, theirs in zip(recorded, replayed, strict=False):
        found = list(_differing("", _content(ours), _content(theirs)))
        if found:
            return "other", found[:SHOWN]
    if len(recorded) > len(replayed):
        return "surplus", [("", _content(recorded[len(replayed)]), None)]
    if len(replayed) > len(recorded):
        return "missing", [("", None, _content(replayed[len(recorded)]))]
    equal = all(map(_same_bytes, recorded, replayed))
    return ("reordered", []) if equal else ("other", [("bytes", "the same written otherwise", "as a worker writes it")])


def _same_bytes(ours: Message | Record, theirs: Message | Record) -> bool:
    return (ours.key, ours.value, list(map(tuple, ours.headers))) == (
        theirs.key,
        theirs.value,
        list(map(tuple, theirs.headers)),
    )


def _content(message: Message | Record) -> dict[str, Any]:
    """Return key, value and headers as JSON has them."""
    try:
        value = orjson.loads(message.value or b"null")
    except orjson.JSONDecodeError:
        value = as_text(message.value)
    headers = {name: as_text(data) for name, data in message.headers}
    return {"key": as_text(message.key), "value": value, "headers": headers}


def _differing(path: str, recorded: Any, replayed: Any) -> Iterator[tuple[str, Any, Any]]:
    if recorded == replayed and type(recorded) is type(replayed):
        return
    if isinstance(recorded, Mapping) and isinstance(replayed, Mapping):
        for name in {**recorded, **replayed}:
            inner = f"{path}.{name}" if path else name
            yield from _differing(inner, recorded.get(name), replayed.get(name))
    elif isinstance(recorded, list) and isinstance(replayed, list) and len(recorded) == len(replayed):
        for number, pair in enumerate(zip(recorded, replayed, strict=True)):
            yield from _differing(f"{path}[{number}]", *pair)
    else:
        yield path.removeprefix("value."), recorded, replayed


def _shown(value: Any) -> str:
    text = "nothing" if value is None else orjson.dumps(value).decode()
    return text if len(text) <= 300 else f"{text[:300]}..."
