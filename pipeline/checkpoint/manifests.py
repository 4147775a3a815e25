"""The newest manifest of each stream of an input topic: in a temporary file, because each repeats the settings."""

from collections.abc import Iterator
from typing import NamedTuple

from resonance.pipeline.checkpoint.changelog_records import Manifest
from resonance.pipeline.disk_map import DiskMap


class StoredManifest(NamedTuple):
    """A manifest, and when it was written."""

    manifest: Manifest
    written: int = -1
    """In milliseconds since 1970; -1 where it is not known."""


class Manifests:
    """Manifests by stream."""

    def __init__(self) -> None:
        self._rows = DiskMap()

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the streams, sorted."""
        return (name.decode() for name in self._rows)

    def find(self, stream: str) -> StoredManifest | None:
        """Return the manifest of a stream with what is known of it; None where it has none."""
        if (value := self._rows.get(stream.encode())) is None:
            return None
        written, _, manifest = value.partition(b" ")
        return StoredManifest(Manifest.parse(manifest, stream), int(written))

    def get(self, stream: str) -> Manifest | None:
        """Return the manifest of a stream; None where it has none."""
        found = self.find(stream)
        return None if found is None else found.manifest

    def stream_with(self, topic_id: str) -> str:
        """Return a stream whose manifest names a topic id, which one of them does."""
        return next(stream for stream in self if (found := self.get(stream)) and found.topic_id == topic_id)

    def put(self, stream: str, stored: StoredManifest) -> None:
        """Replace the manifest of a stream."""
        self._rows.put(stream.encode(), b"%d " % stored.written + stored.manifest.value())

    def pop(self, stream: str) -> StoredManifest | None:
        """Remove the manifest of a stream and return it with what is known of it; None where it has none."""
        found = self.find(stream)
        if found is not None:
            self._rows.pop(stream.encode())
        return found
