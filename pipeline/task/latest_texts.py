"""The texts of the streams that were written about last."""

from typing import Final

from resonance.pipeline.task.encode.assignments import StreamTexts

LEAST: Final = 1_000
"""Streams that are kept at least, however few a partition may have."""


class LatestTexts:
    """Keeps the texts of so many streams; those of the one that was asked for longest ago go first.

    What they say follows from the stream and the version alone, so that losing them costs time and nothing else.

    Parameters
    ----------
    streams : int
        How many.
    """

    def __init__(self, streams: int) -> None:
        self._most = max(streams, LEAST)
        self._texts: dict[str, StreamTexts] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def of(self, stream: str, version: int, depth: int) -> StreamTexts:
        """Return the texts of a version of a stream whose engine has so many levels."""
        texts = self._texts.pop(stream, None)
        if texts is None or texts.version != version:
            texts = StreamTexts(stream, version, depth)
        self._texts[stream] = texts
        if len(self._texts) > self._most:
            del self._texts[next(iter(self._texts))]
        return texts
