"""The note beside each committed offset: it shows that a worker or a command of this program committed it."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import orjson
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, PartitionRecord


def is_reproducible(began: int, first_version: int) -> bool:
    """Return whether learning a log from its first record on gives the same models.

    `began` is as in `PartitionRecord`; `first_version` is the version with which the partition's streams begin.
    """
    return (began, first_version) == (0, 1)


class CommittedOffset(NamedTuple):
    """An offset of the group and the metadata committed with it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class OffsetMetadata:
    """What a partition's note says beside the offset itself."""

    topic_id: str
    """Kafka's id of the topic that the offset is of."""
    reproducible: bool
    """`is_reproducible`"""
    owner: str = ""
    """Transactional id of the worker that may go on behind the offset; ``""`` for none."""
    membership: str = ""
    """Generation and member id that committed it in a transaction: no other commit of the partition has the same."""

    def at(self, offset: int) -> str:
        """Return the metadata to commit with an offset."""
        values: dict[str, object] = {"offset": offset, "topic_id": self.topic_id, "reproducible": self.reproducible}
        values |= {name: value for name in ("owner", "membership") if (value := getattr(self, name))}
        return orjson.dumps({"resonance": values}).decode()

    @classmethod
    def read(cls, committed: CommittedOffset) -> Self | None:
        """Return the note of an offset; None where another program committed it, or moved it."""
        try:
            data = orjson.loads(committed.metadata)["resonance"]
            names = (str(data.get(name, "")) for name in ("owner", "membership"))
            note = cls(str(data["topic_id"]), data["reproducible"] is True, *names)
            return note if data["offset"] == committed.offset else None
        except UNREADABLE:
            return None


def is_proved(committed: CommittedOffset, record: PartitionRecord) -> bool:
    """Return whether a worker or a command committed an offset, for the log of a partition's snapshots."""
    note = OffsetMetadata.read(committed)
    return note is not None and note.topic_id == record.identity.topic_id
