"""What a deployment has said of a range of its input, as it stands on its output topics.

Of every output only a digest is kept, by the record that it goes back to; what somebody wants to see of them is read
again. Where delivery is at least once the same output can stand there twice: it has to be the same, and counts once.
Where models were begun anew the same record can have been answered by several versions: the newest counts.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import orjson
from resonance.pipeline.log_reader import TopicPartition
from resonance.pipeline.records import Message, Record

_VERSION: Final = b'"version":'


class Told(NamedTuple):
    """What an output goes back to.

    Attributes
    ----------
    topic : str
        Topic of its record.
    offset : int
        Offset of it.
    version : int
        Version of the model that said it; 0 where that does not matter.
    identity : tuple
        What tells it from other outputs of its record.
    """

    topic: str
    offset: int
    version: int = 0
    identity: tuple[Any, ...] = ()


class Recorded(Protocol):
    """The recorded outputs of one kind about a range of one input partition.

    Attributes
    ----------
    count : int
        How many there are, each counted once.
    repeats : int
        How often one was there again.
    older : int
        How many were said by versions that were given up.
    """

    count: int
    repeats: int
    older: int

    def add(self, records: Sequence[Record]) -> None:
        """Take recorded outputs in, those of other inputs and ranges left out."""

    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset, of a part of the range, of which something else is said than was recorded.

        Parameters
        ----------
        messages : sequence of Message
            What the replay says of that part, in offset order.
        first, end : int
            The part.
        """


class Assignments:
    """Digests of the assignments of a range: one for each offset at most.

    Parameters
    ----------
    at : (topic, partition)
        The input partition.
    first, end : int
        The range.
    """

    def __init__(self, at: TopicPartition, first: int, end: int) -> None:
        self.count = self.repeats = self.older = 0
        self._own = b'"source":{"topic":"%b","partition":%d,"offset":' % (at[0].encode(), at[1])
        self._first, self._end = first, end
        # 0 where there is none: 12 bytes for a record, so that a day of them can be compared.
        self._digests = np.zeros(max(0, end - first), np.int64)
        self._versions = np.zeros(max(0, end - first), np.int32)
        self._unequal: int | None = None

    def _offset(self, value: bytes) -> int:
        """Return the offset that an assignment goes back to; -1 for another input's."""
        # These bytes cannot stand inside a text of JSON, whose quotation marks are escaped.
        place = value.find(self._own)
        return -1 if place < 0 else int(value[place + len(self._own) : value.index(b"}", place)])

    def add(self, records: Sequence[Record]) -> None:
        """Take recorded outputs in, those of other inputs and ranges left out."""
        for record in records:
            value = record.value or b""
            offset = self._offset(value)
            if not self._first <= offset < self._end:
                continue
            place, number, version = offset - self._first, _digest(record), _version(value)
            before, known = self._digests[place], self._versions[place]
            if before == 0:
                self.count += 1
            elif version != known:
                self.older += 1
            elif before == number:
                self.repeats += 1
            else:
                self._unequal = offset if self._unequal is None else min(self._unequal, offset)
            if version >= known:
                self._digests[place], self._versions[place] = number, version

    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset, of a part of the range, of which something else is said; see `Recorded`."""
        recorded = self._digests[first - self._first : end - self._first]
        told = np.zeros(end - first, np.int64)
        for message in messages:
            told[self._offset(message.value or b"") - first] = _digest(message)
        different = np.flatnonzero(told != recorded)
        found = [first + int(different[0])] if len(different) else []
        if self._unequal is not None and first <= self._unequal < end:
            found.append(self._unequal)
        return min(found, default=None)


class Others:
    """Digests of events, or of dead letters: few, and several of one record.

    Parameters
    ----------
    at : (topic, partition)
        The input partition.
    first, end : int
        The range.
    told : callable
        Returns what an output goes back to; None for what is no output of this kind.
    """

    def __init__(
        self, at: TopicPartition, first: int, end: int, told: Callable[[Message | Record], Told | None]
    ) -> None:
        self.count = self.repeats = self.older = 0
        self._topic = at[0]
        self._first, self._end = first, end
        self._told = told
        self._digests: dict[int, dict[tuple[Any, ...], int]] = {}
        self._versions: dict[int, int] = {}
        self._unequal: int | None = None

    def add(self, records: Sequence[Record]) -> None:
        """Take recorded outputs in, those of other inputs and ranges left out."""
        for record in records:
            told = self._told(record)
            if told is None or told.topic != self._topic or not self._first <= told.offset < self._end:
                continue
            known = self._versions.get(told.offset, told.version)
            if told.version < known:
                self.older += 1
                continue
            own = self._digests.setdefault(told.offset, {})
            if told.version > known:
                self.older += len(own)
                self.count -= len(own)
                own.clear()
            self._versions[told.offset] = told.version
            number = _digest(record, headers=True)
            before = own.setdefault(told.identity, 0)
            own[told.identity] = number
            if before == 0:
                self.count += 1
            elif before == number:
                self.repeats += 1
            else:
                self._unequal = told.offset if self._unequal is None else min(self._unequal, told.offset)

    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset, of a part of the range, of which something else is said; see `Recorded`."""
        told: dict[int, dict[tuple[Any, ...], int]] = {}
        for message in messages:
            found = self._told(message)
            if found is not None:
                told.setdefault(found.offset, {})[found.identity] = _digest(message, headers=True)
        recorded = {offset: own for offset, own in self._digests.items() if first <= offset < end}
        different = [offset for offset in {*told, *recorded} if told.get(offset) != recorded.get(offset)]
        if self._unequal is not None and first <= self._unequal < end:
            different.append(self._unequal)
        return min(different, default=None)


def assignment_told(message: Message | Record) -> Told | None:
    """Return what an assignment goes back to; None for what is none."""
    content = _object(message.value)
    try:
        source = content["source"]
        return Told(source["topic"], source["offset"], content["version"])
    except (KeyError, TypeError):
        return None


def event_told(message: Message | Record) -> Told | None:
    """Return what an event goes back to; None for what is none."""
    content = _object(message.value)
    try:
        source, version = content["cause"]["source"], content["version"]
        return Told(source["topic"], source["offset"], version, (content["stream"], version, content["seq"]))
    except (KeyError, TypeError):
        return None


def letter_told(name: str) -> Callable[[Message | Record], Told | None]:
    """Return the function that says what a dead letter of a deployment goes back to."""
    topic, offset = f"{name}.error.topic", f"{name}.error.offset"

    def told(message: Message | Record) -> Told | None:
        # A dead letter that was replayed and failed again has both twice: the last are its own.
        headers = dict(message.headers)
        try:
            return Told((headers[topic] or b"").decode(), int(headers[offset] or b""))
        except (KeyError, ValueError):
            return None

    return told


def _object(value: bytes | None) -> Any:
    try:
        return orjson.loads(value or b"null")
    except orjson.JSONDecodeError:
        return None


def _version(value: bytes) -> int:
    place = value.find(_VERSION)
    return int(value[place + len(_VERSION) : value.index(b",", place)]) if place >= 0 else 0


def _digest(message: Message | Record, *, headers: bool = False) -> int:
    """Return a number that stands for key and value, and for the headers if asked; never 0."""
    return hash((message.key, message.value, *(map(tuple, message.headers) if headers else ()))) or 1
