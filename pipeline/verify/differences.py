"""How two outputs differ, member by member."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from resonance.pipeline import exact_json
from resonance.pipeline.records import Message, Record
from resonance.pipeline.replay.sinks import as_text
from resonance.schemas import without_envelope

SHOWN: Final = 20
"""Most members that are listed."""


@dataclass(slots=True)
class OutputDifference:
    """The first difference between recorded and replayed outputs."""

    kind: str
    """Kind of topic, such as ``assignments``, ``cluster_events`` or ``dead_letters``."""
    topic: str
    """Output topic."""
    partition: int
    """Partition of the output topic."""
    offset: int
    """Offset of the source record in the log that is verified."""
    what: str
    """One of ``other`` (another output is recorded), ``missing`` (none is recorded), ``surplus`` (the replay has none),
    ``repeated`` (two different ones are recorded) and ``reordered`` (the same is recorded, before the outputs of an
    earlier record)."""
    members: list[tuple[str, Any, Any]] = field(default_factory=list)
    """Path, recorded value and replayed value of each member that differs; None where it is absent."""
    about: str = ""
    """Source record, where it is not in the partition that is verified; else ``""``."""

    def sentences(self, source: str) -> list[str]:
        """Return the difference as text, one line for each member, with `source` as the name of the input topic."""
        where = f"{self.topic}[{self.partition}], about {self.about or f'{source}[{self.partition}]@{self.offset}'}"
        texts = {
            "other": "is recorded otherwise than it is replayed",
            "missing": "is replayed, but not recorded",
            "surplus": "is recorded, but not replayed",
            "repeated": "is recorded twice, differently",
            "reordered": "is recorded before an output of an earlier record",
        }
        return [f"{where}: {texts[self.what]}"] + [
            f"  {path}: recorded {_shown(recorded)}, replayed {_shown(replayed)}"
            for path, recorded, replayed in self.members
        ]


def compare(recorded: Sequence[Message | Record], replayed: Sequence[Message | Record]) -> tuple[str, list[Any]]:
    """Return how the outputs of one kind about one record differ, as `what` and `members` of `OutputDifference`.

    Both sides are in their order, with each recorded output once; the members are those of the first pair that differs.
    """
    if all(without_envelope(one.headers) == tuple(map(tuple, one.headers)) for one in recorded):
        # They were recorded without envelope, which is no difference.
        replayed = [Message(one.key, one.value, list(without_envelope(one.headers))) for one in replayed]
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
    """Return key, value and headers as a JSON object."""
    try:
        value = exact_json.loads(message.value or b"null")
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
    text = "nothing" if value is None else exact_json.dumps(value).decode()
    return text if len(text) <= 300 else f"{text[:300]}..."
