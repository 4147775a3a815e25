"""Names of the streams of a partition."""

from typing import NamedTuple, Self
from urllib.parse import quote_from_bytes, unquote_to_bytes

from resonance.pipeline.config.settings import Settings


class StreamNames(NamedTuple):
    """Names of the streams of one partition, unique in the deployment, and their keys.

    A stream of an input partition has the partition in its name, because the same key in another partition is another
    stream: ``p3``, ``p3:DE``, with several input topics ``features.p3:DE``. A re-keyed stream is named by its key
    alone, wherever it is learned: ``features`` for a whole topic, ``DE`` for a field.
    """

    prefix: str
    """Beginning of every name; empty for re-keyed streams."""
    by_key: bool
    """Whether the partition can have several streams."""

    @classmethod
    def of(cls, settings: Settings, topic: str, partition: int) -> Self:
        """Return the names of the streams that are learned in a partition."""
        if settings.is_rekeyed:
            return cls("", True)
        several = len(settings.input.topics) > 1
        return cls((f"{topic}." if several else "") + f"p{partition}", settings.by_key)

    def name_of(self, key: bytes | None) -> str:
        """Return the name of a key's stream; the only stream of a partition has the key None."""
        if key is None:
            return self.prefix
        text = quote_from_bytes(key, safe="")
        return f"{self.prefix}:{text}" if self.prefix else text

    def key_of(self, name: str) -> bytes | None:
        """Return the key of the stream with a name."""
        if not self.by_key:
            return None
        return unquote_to_bytes(name.removeprefix(f"{self.prefix}:") if self.prefix else name)
