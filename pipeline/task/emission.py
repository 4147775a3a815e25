"""From which record on a partition emits outputs.

With ``emit_from`` a partition suppresses its outputs until the first record whose own time is not before that setting.
From that record's offset on, the latch, it emits everything, whatever the times of later records. The latch depends on
the log alone, so it is the same however the log is cut into batches. It is part of the partition's state, because a
recovery can begin behind it.
"""

import logging
from collections.abc import Sequence
from itertools import compress
from operator import le
from typing import Any

from resonance.pipeline import logs

_log = logging.getLogger(__name__)


class Emission:
    """Decides record by record whether a partition emits outputs; topic and partition are for the log."""

    def __init__(self, emit_from: str | None, topic: str, partition: int) -> None:
        self._setting = emit_from
        self._place = topic, partition
        # The setting in force for this partition, and the offset from which on records are compared with it.
        self._emit_from = emit_from
        self._at = 0
        self.emit_from_offset: int | None = None if emit_from else 0
        """Offset of the first record that is emitted; None while it is not known."""

    def emits(self, offset: int) -> bool:
        """Whether a record is known to stand at the latch or behind it."""
        return self.emit_from_offset is not None and offset >= self.emit_from_offset

    def look(self, offsets: Sequence[int], times: Sequence[str]) -> None:
        """Set the latch at the first of some usable records, in order, whose own time reaches the setting."""
        if self.emit_from_offset is not None or self._emit_from is None:
            return
        late = map(le, (self._emit_from,) * len(times), times)
        for offset in compress(offsets, late):
            if offset >= self._at:
                self._latch(offset)
                return

    def _latch(self, offset: int) -> None:
        self.emit_from_offset = offset
        emitted = (*self._place, offset, self._emit_from)
        extra = logs.at(*self._place, offset)
        _log.info(
            "%s[%d]: outputs are emitted from offset %d on, the first record that is not before %s",
            *emitted,
            extra=extra,
        )

    def go_on_at(self, offset: int) -> None:
        """Apply the present setting from an offset on, where nothing was emitted yet under another one."""
        if self.emit_from_offset is None and self._emit_from != self._setting:
            self.begin_at(offset)

    def begin_at(self, offset: int) -> None:
        """Suppress outputs below an offset, and apply the setting from there on."""
        self._emit_from, self._at = self._setting, offset
        self.emit_from_offset = None if self._setting else offset

    def state(self) -> dict[str, Any]:
        """Return the state in a form that JSON can hold."""
        return {"emit_from": self._emit_from, "at": self._at, "told_from": self.emit_from_offset}

    def restore(self, content: Any) -> None:
        """Continue from a `state`."""
        given, emit_from_offset = content["emit_from"], content["told_from"]
        self._emit_from = None if given is None else str(given)
        self._at = int(content["at"])
        self.emit_from_offset = None if emit_from_offset is None else int(emit_from_offset)
