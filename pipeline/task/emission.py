"""From which record on a partition tells what it learns.

With ``emit_from`` the records before the first one whose own time is not before it are learned silently; that record is
a latch: from its offset on everything is told, whatever the times of later records. The latch is found in the log
alone, so that it is the same however the log is cut; and it is part of the partition's state, because what is read
again after a crash can begin behind it.
"""

import logging
from collections.abc import Sequence
from itertools import compress
from operator import le
from typing import Any

from resonance.pipeline import logs

_log = logging.getLogger(__name__)


class Emission:
    """Decides record by record whether a partition tells.

    Parameters
    ----------
    emit_from : str or None
        The setting.
    topic : str
        Input topic, for the log.
    partition : int
        Partition of it.

    Attributes
    ----------
    emit_from_offset : int or None
        Offset of the first record that is told; None while it is not known.
    """

    def __init__(self, emit_from: str | None, topic: str, partition: int) -> None:
        self._setting = emit_from
        self._place = topic, partition
        # What counts for this partition: the time, and the offset from which on records are compared with it.
        self._emit_from = emit_from
        self._at = 0
        self.emit_from_offset: int | None = None if emit_from else 0

    def tells(self, offset: int) -> bool:
        """Whether it is known that a record is told."""
        return self.emit_from_offset is not None and offset >= self.emit_from_offset

    def begins_at(self, offset: int, time: str) -> bool:
        """Whether a usable record is told; the first that is sets the latch.

        Parameters
        ----------
        offset : int
            The record's.
        time : str
            Its own time.
        """
        if (
            self.emit_from_offset is None
            and self._emit_from is not None
            and offset >= self._at
            and time >= self._emit_from
        ):
            self._latch(offset)
        return self.tells(offset)

    def look(self, offsets: Sequence[int], times: Sequence[str]) -> None:
        """Set the latch where one of some usable records, in order, is the first that is told.

        Parameters
        ----------
        offsets : sequence of int
            The records'.
        times : sequence of str
            Their own times.
        """
        if self.emit_from_offset is not None or self._emit_from is None:
            return
        late = map(le, (self._emit_from,) * len(times), times)
        for offset in compress(offsets, late):
            if offset >= self._at:
                self._latch(offset)
                return

    def _latch(self, offset: int) -> None:
        self.emit_from_offset = offset
        told = (*self._place, offset, self._emit_from)
        extra = logs.at(*self._place, offset)
        _log.info("%s[%d]: told from offset %d on, the first record that is not before %s", *told, extra=extra)

    def go_on_at(self, offset: int) -> None:
        """Let the present setting count from an offset on where nothing was told yet under another one."""
        if self.emit_from_offset is None and self._emit_from != self._setting:
            self.begin_at(offset)

    def begin_at(self, offset: int) -> None:
        """Tell nothing below an offset, and from there on what the setting says."""
        self._emit_from, self._at = self._setting, offset
        self.emit_from_offset = None if self._setting else offset

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {"emit_from": self._emit_from, "at": self._at, "told_from": self.emit_from_offset}

    def restore(self, content: Any) -> None:
        """Continue from a `state`; from None where a release wrote it that told everything.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is not one.
        """
        if content is None:
            self._emit_from, self._at, self.emit_from_offset = None, 0, 0
            return
        given, emit_from_offset = content["emit_from"], content["told_from"]
        self._emit_from = None if given is None else str(given)
        self._at = int(content["at"])
        self.emit_from_offset = None if emit_from_offset is None else int(emit_from_offset)
