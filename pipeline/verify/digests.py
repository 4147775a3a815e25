"""What a deployment has said of a range of its input, as it stands on its output topics.

Of every output only a digest is kept, by the record that it goes back to; what somebody wants to see of them is read
again. Where delivery is at least once the same output can stand there twice: it has to be the same, and counts once.
Where models were begun anew the same record can have been answered by several versions: the newest counts, and none
that was given up before the replay's own models began.

Outputs have to stand in the order of their records. Who goes back tells everything from there on once more: then the
first mentions stand in order, or, where the log of outputs begins within what was told again, the last ones do.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import orjson
from resonance.pipeline.records import Message, Record, TopicPartition

_HEAD: Final = b'{"id":'
_SOURCE: Final = b'"source":{"topic":"'
_VERSION: Final = b'"version":'


class OutputRef(NamedTuple):
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
    partition : int
        Partition of its record.
    """

    topic: str
    offset: int
    version: int = 0
    identity: tuple[Any, ...] = ()
    partition: int = -1


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
    foreign : int
        Records that are no outputs of this kind.
    lowest : int or None
        Lowest offset of the input partition, in the range or not, of which something is said.
    """

    count: int
    repeats: int
    older: int
    foreign: int
    lowest: int | None

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

    def bare(self, message: Message | Record) -> Message:
        """Return what of an output is compared."""


class Assignments:
    """Digests of the assignments of a range: one for each offset at most.

    Parameters
    ----------
    at : (topic, partition)
        The input partition.
    first, end : int
        The range.
    oldest : int
        Versions below it were given up.
    """

    def __init__(self, at: TopicPartition, first: int, end: int, oldest: int = 0) -> None:
        self.count = self.repeats = self.older = self.foreign = 0
        self.lowest: int | None = None
        self._topic = at[0]
        self._own = b'%b%b","partition":%d,"offset":' % (_SOURCE, at[0].encode(), at[1])
        self._first, self._end, self._oldest = first, end, oldest
        # 0 where there is none: 16 bytes for a record, so that a day of them can be compared.
        self._digests = np.zeros(max(0, end - first), np.int64)
        self._versions = np.zeros(max(0, end - first), np.int32)
        self._last = np.zeros(max(0, end - first), np.int32)
        self._taken, self._highest, self._late = 0, -1, False
        self._unequal: int | None = None

    def bare(self, message: Message | Record) -> Message:
        """Return what of an assignment is compared: all of it."""
        return Message(message.key, message.value, list(message.headers))

    def _said(self, message: Message | Record) -> tuple[int, int] | None:
        """Return offset and version of an assignment, -1 for another input's; None for what is none."""
        value = message.value or b""
        # These bytes cannot stand inside a text of JSON, whose quotation marks are escaped; members that are copied
        # from the input stand behind.
        place = value.find(_SOURCE)
        if place >= 0 and value.startswith(_HEAD):
            if not value.startswith(self._own, place):
                return -1, 0
            try:
                return int(value[place + len(self._own) : value.index(b"}", place)]), _version(value)
            except ValueError:
                pass
        told = assignment_told(message)
        if told is None:
            return None
        return (told.offset, told.version) if told.topic == self._topic else (-1, 0)

    def add(self, records: Sequence[Record]) -> None:
        """Take recorded outputs in, those of other inputs and ranges left out."""
        for record in records:
            said = self._said(record)
            if said is None:
                self.foreign += 1
                continue
            offset, version = said
            if offset < 0:
                continue
            if version < self._oldest:
                self.older += self._first <= offset < self._end
                continue
            if self.lowest is None or offset < self.lowest:
                self.lowest = offset
            if not self._first <= offset < self._end:
                continue
            place, number = offset - self._first, _digest(record)
            before, known = self._digests[place], self._versions[place]
            if before == 0:
                self.count += 1
                self._late = self._late or offset < self._highest
                self._highest = max(self._highest, offset)
            elif version != known:
                self.older += 1
            elif before == number:
                self.repeats += 1
            else:
                self._unequal = offset if self._unequal is None else min(self._unequal, offset)
            self._taken += 1
            if version >= known:
                self._digests[place], self._versions[place], self._last[place] = number, version, self._taken

    @cached_property
    def _disorder(self) -> int | None:
        """The lowest offset whose answer stands before that of an earlier one."""
        if not self._late:
            return None
        told = np.flatnonzero(self._last)
        back = np.flatnonzero(np.diff(self._last[told]) < 0)
        return self._first + int(told[back[0] + 1]) if len(back) else None

    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset, of a part of the range, of which something else is said; see `Recorded`."""
        recorded = self._digests[first - self._first : end - self._first]
        told = np.zeros(end - first, np.int64)
        for message in messages:
            said = self._said(message)
            if said is not None:
                told[said[0] - first] = _digest(message)
        different = np.flatnonzero(told != recorded)
        found = [first + int(different[0])] if len(different) else []
        found += [offset for offset in (self._unequal, self._disorder) if offset is not None and first <= offset < end]
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
    oldest : int
        Versions below it were given up; what has no version was not.
    aside : collection of str
        Headers that say whose history an output belongs to, and are not compared.
    """

    def __init__(
        self,
        at: TopicPartition,
        first: int,
        end: int,
        told: Callable[[Message | Record], OutputRef | None],
        oldest: int = 0,
        aside: Collection[str] = (),
    ) -> None:
        self.count = self.repeats = self.older = self.foreign = 0
        self.lowest: int | None = None
        self._topic = at[0]
        self._first, self._end, self._oldest = first, end, oldest
        self._told = told
        self._aside = aside
        self._digests: dict[int, dict[tuple[Any, ...], int]] = {}
        self._versions: dict[int, int] = {}
        self._last: dict[tuple[int, tuple[Any, ...]], int] = {}
        self._taken, self._highest, self._late = 0, (-1, ()), False
        self._unequal: int | None = None

    def add(self, records: Sequence[Record]) -> None:
        """Take recorded outputs in, those of other inputs and ranges left out."""
        for record in records:
            told = self._told(record)
            if told is None:
                self.foreign += 1
                continue
            inside = self._first <= told.offset < self._end
            if told.topic != self._topic:
                continue
            if 0 < told.version < self._oldest:
                self.older += inside
                continue
            if self.lowest is None or told.offset < self.lowest:
                self.lowest = told.offset
            if inside:
                self._take(told, _digest(self.bare(record)))

    def bare(self, message: Message | Record) -> Message:
        """Return what of an output is compared: all but the headers that are set aside."""
        headers = [header for header in message.headers if header[0] not in self._aside]
        return Message(message.key, message.value, headers)

    def _take(self, told: OutputRef, number: int) -> None:
        known = self._versions.get(told.offset, told.version)
        if told.version < known:
            self.older += 1
            return
        own = self._digests.setdefault(told.offset, {})
        if told.version > known:
            self.older += len(own)
            self.count -= len(own)
            own.clear()
        self._versions[told.offset] = told.version
        place = (told.offset, told.identity)
        before = own.get(told.identity)
        own[told.identity] = number
        if before is None:
            self.count += 1
            self._late = self._late or place < self._highest
            self._highest = max(self._highest, place)
        elif before == number:
            self.repeats += 1
        else:
            self._unequal = told.offset if self._unequal is None else min(self._unequal, told.offset)
        self._taken += 1
        self._last[place] = self._taken

    @cached_property
    def _disorder(self) -> int | None:
        """The lowest offset of which something stands before what is said of an earlier one."""
        if not self._late:
            return None
        places = sorted((offset, identity) for offset, own in self._digests.items() for identity in own)
        pairs = pairwise(places)
        return next((later[0] for place, later in pairs if self._last[later] < self._last[place]), None)

    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset, of a part of the range, of which something else is said; see `Recorded`."""
        told: dict[int, dict[tuple[Any, ...], int]] = {}
        for message in messages:
            found = self._told(message)
            if found is not None:
                told.setdefault(found.offset, {})[found.identity] = _digest(self.bare(message))
        recorded = {offset: own for offset, own in self._digests.items() if first <= offset < end}
        different = [offset for offset in {*told, *recorded} if told.get(offset) != recorded.get(offset)]
        more = (self._unequal, self._disorder)
        return min(
            [*different, *(offset for offset in more if offset is not None and first <= offset < end)], default=None
        )


def assignment_told(message: Message | Record) -> OutputRef | None:
    """Return what an assignment goes back to; None for what is none."""
    content = _object(message.value)
    try:
        source = content["source"]
        return _checked(OutputRef(source["topic"], source["offset"], content["version"], (), source["partition"]))
    except (KeyError, TypeError):
        return None


def event_told(message: Message | Record) -> OutputRef | None:
    """Return what an event goes back to; None for what is none."""
    content = _object(message.value)
    try:
        source, version = content["cause"]["source"], content["version"]
        # Its number first: it says the order of the events of one record.
        places = int(content.get("subtree", -1)), int(content.get("part", 1))
        identity = (int(content["seq"]), str(content["stream"]), version, *places)
        return _checked(OutputRef(source["topic"], source["offset"], version, identity, source["partition"]))
    except (KeyError, TypeError, ValueError):
        return None


def _checked(told: OutputRef) -> OutputRef | None:
    """Return it, unless a stranger wrote something else where numbers belong."""
    return told if all(isinstance(n, int) for n in (told.offset, told.version, told.partition)) else None


def letter_told(name: str) -> Callable[[Message | Record], OutputRef | None]:
    """Return the function that says what a dead letter of a deployment goes back to."""
    parts = ("topic", "partition", "offset", "version", "decided_by", "class")
    topic, partition, offset, version, decided_by, kind = (f"{name}.error.{part}" for part in parts)

    def told(message: Message | Record) -> OutputRef | None:
        # A dead letter that was replayed and failed again has them twice: its own begin with the last topic.
        names = [header for header, _ in message.headers]
        try:
            headers = dict(message.headers[len(names) - 1 - names[::-1].index(topic) :])
            number, said_by = int(headers.get(partition) or b"-1"), int(headers.get(version) or b"0")
            own = OutputRef((headers[topic] or b"").decode(), int(headers[offset] or b""), said_by, partition=number)
            if (place := headers.get(decided_by)) is None:
                return own
            # Labels that waited: it was said with a later record. Those that have waited too long come last.
            decider, decided_in, decided_at = place.decode().rsplit("-", 2)
            identity = (headers.get(kind) == b"too_late", own.topic, number, own.offset)
            return OutputRef(decider, int(decided_at), said_by, identity, int(decided_in))
        except (KeyError, ValueError):
            return None

    return told


def letter_history(name: str) -> frozenset[str]:
    """Return the headers that say to which history a dead letter belongs; those of earlier releases have none."""
    return frozenset((f"{name}.error.topic_id", f"{name}.error.version"))


def _object(value: bytes | None) -> Any:
    try:
        return orjson.loads(value or b"null")
    except orjson.JSONDecodeError:
        return None


def _version(value: bytes) -> int:
    place = value.index(_VERSION) + len(_VERSION)
    return int(value[place : value.index(b",", place)])


def _digest(message: Message | Record) -> int:
    """Return a number that stands for key, value and headers; never 0."""
    return hash((message.key, message.value, *map(tuple, message.headers))) or 1
