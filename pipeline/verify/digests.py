"""Digests of the recorded outputs about a range of the input.

Each output is kept only as a digest, under its source record; the outputs of a difference are read again. Under
at-least-once delivery an output can be recorded twice: both copies must be identical, and count once. After models were
restarted, several versions can have answered the same record: the newest counts, and versions that were abandoned
before the replay's models began do not.

An output can be recorded with the attributes of CloudEvents or without, whatever `output.envelope` is now: it may have
changed. Replays have them, and recorded ones must be equal.

Outputs must be in source-offset order. A worker that rolls back emits everything from that offset again: then the first
occurrences are in order, or, where the output log begins within the repeated outputs, the last occurrences are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from resonance.pipeline.records import Message, Record, TopicPartition
from resonance.pipeline.verify.output_refs import OutputRef, assignment_ref
from resonance.schemas import without_envelope

_HEAD: Final = b'{"id":'
_SOURCE: Final = b'"source":{"topic":"'
_VERSION: Final = b'"version":'


class Digest(NamedTuple):
    """Hashes of an output."""

    content: int
    """Of all but the envelope; never 0."""
    envelope: int
    """Of the attributes of CloudEvents, 0 without any."""

    def is_like(self, other: "Digest") -> bool:
        """Whether both are the same output, with the same envelope where both have one."""
        return self.content == other.content and (self.envelope in (0, other.envelope) or other.envelope == 0)


RefOf = Callable[[Message | Record], OutputRef | None]
"""Returns the source record of an output, None for records that are not outputs of the kind."""


def is_behind(ref: RefOf, topic: str, offset: int, record: Message | Record) -> bool | None:
    """Whether the source record of a recorded output is at or after an offset, None if unknown."""
    one = ref(record)
    return None if one is None or one.topic != topic else one.offset >= offset


class RecordRange(NamedTuple):
    """The range of a partition of an input or of the routes that is compared."""

    at: TopicPartition
    begin: int
    end: int
    oldest: int
    """Versions below this one were abandoned, which outputs without a version never were."""


class Recorded(ABC):
    """The recorded outputs of one kind about a range.

    `ref` returns the source record of an output, with its offset in the log that is compared; the headers in `aside`
    name the lineage of an output and are not compared.
    """

    def __init__(self, part: RecordRange, ref: RefOf, aside: Collection[str] = ()) -> None:
        self.ref = ref
        self.count = 0
        """Distinct outputs."""
        self.repeats = 0
        """Identical copies of outputs that are counted already."""
        self.older = 0
        """Outputs of abandoned versions."""
        self.foreign = 0
        """Records that are not outputs of this kind."""
        self.lowest: int | None = None
        """Lowest offset of the partition, in the range or not, that has an output."""
        self._topic = part.at[0]
        self._first, self._end, self._oldest = part.begin, part.end, part.oldest
        self._aside = aside
        self._taken, self._late = 0, False
        self._unequal: int | None = None

    @abstractmethod
    def add(self, records: Sequence[Record]) -> None:
        """Add recorded outputs, without those of other inputs and ranges."""

    @abstractmethod
    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset from `first` to below `end` whose replayed outputs differ from the recorded ones.

        `messages` are the replayed outputs of these offsets, in offset order.
        """

    def bare(self, message: Message | Record) -> Message:
        """Return the part of an output that is compared."""
        headers = [header for header in message.headers if header[0] not in self._aside]
        return Message(message.key, message.value, headers)

    @property
    @abstractmethod
    def _disorder(self) -> int | None:
        """Lowest offset with an output that is out of order."""

    def _lowest_of(self, different: Iterable[int], first: int, end: int) -> int | None:
        """Return the lowest of some offsets and of those whose recorded outputs contradict each other."""
        own = (self._unequal, self._disorder)
        return min([*different, *(one for one in own if one is not None and first <= one < end)], default=None)


class Assignments(Recorded):
    """Digests of the assignments of a range, at most one for each offset."""

    def __init__(self, part: RecordRange, ref: RefOf = assignment_ref, aside: Collection[str] = ()) -> None:
        super().__init__(part, ref, aside)
        (topic, partition), size = part.at, max(0, part.end - part.begin)
        self._own = b'%b%b","partition":%d,"offset":' % (_SOURCE, topic.encode(), partition)
        # 0 stands for no assignment. 16 bytes for each record, so that a day of records can be compared; the envelopes
        # take memory only where there are any.
        self._digests = np.zeros(size, np.int64)
        self._envelopes = np.zeros(size, np.int64)
        self._versions = np.zeros(size, np.int32)
        self._last = np.zeros(size, np.int32)
        self._highest = -1

    def _place(self, message: Message | Record) -> tuple[int, int] | None:
        """Return offset and version of an assignment, offset -1 for another input's; None for other records."""
        value = message.value or b""
        # A JSON string cannot contain these bytes, because its quotation marks are escaped. Members copied from the
        # input come after them.
        place = value.find(_SOURCE) if self.ref is assignment_ref else -1
        if place >= 0 and value.startswith(_HEAD):
            if not value.startswith(self._own, place):
                return -1, 0
            try:
                return int(value[place + len(self._own) : value.index(b"}", place)]), _version(value)
            except ValueError:
                pass
        ref = self.ref(message)
        if ref is None:
            return None
        return (ref.offset, ref.version) if ref.topic == self._topic else (-1, 0)

    def add(self, records: Sequence[Record]) -> None:
        """Add recorded outputs, without those of other inputs and ranges."""
        for record in records:
            found = self._place(record)
            if found is None:
                self.foreign += 1
                continue
            offset, version = found
            if offset < 0:
                continue
            if version < self._oldest:
                self.older += self._first <= offset < self._end
                continue
            if self.lowest is None or offset < self.lowest:
                self.lowest = offset
            if not self._first <= offset < self._end:
                continue
            place, number = offset - self._first, _digest(self.bare(record))
            before, known = Digest(self._digests[place], self._envelopes[place]), self._versions[place]
            if before.content == 0:
                self.count += 1
                self._late = self._late or offset < self._highest
                self._highest = max(self._highest, offset)
            elif version != known:
                self.older += 1
            elif before.is_like(number):
                self.repeats += 1
            else:
                self._unequal = offset if self._unequal is None else min(self._unequal, offset)
            self._taken += 1
            if version >= known:
                self._digests[place], self._versions[place], self._last[place] = number.content, version, self._taken
                if number.envelope or version > known:
                    self._envelopes[place] = number.envelope

    @cached_property
    def _disorder(self) -> int | None:
        if not self._late:
            return None
        places = np.flatnonzero(self._last)
        back = np.flatnonzero(np.diff(self._last[places]) < 0)
        return self._first + int(places[back[0] + 1]) if len(back) else None

    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset whose replayed outputs differ from the recorded ones."""
        part = slice(first - self._first, end - self._first)
        recorded, envelopes = self._digests[part], self._envelopes[part]
        replayed = np.zeros((2, end - first), np.int64)
        for message in messages:
            place = self._place(message)
            if place is not None:
                replayed[:, place[0] - first] = _digest(self.bare(message))
        other = (envelopes != 0) & (replayed[1] != envelopes)
        different = np.flatnonzero((replayed[0] != recorded) | other)
        return self._lowest_of((first + int(one) for one in different[:1]), first, end)


class Others(Recorded):
    """Digests of kinds of which one record can have several outputs: events, dead letters and routes."""

    def __init__(self, part: RecordRange, ref: RefOf, aside: Collection[str] = ()) -> None:
        super().__init__(part, ref, aside)
        self._digests: dict[int, dict[tuple[Any, ...], Digest]] = {}
        self._versions: dict[tuple[int, tuple[str, ...]], int] = {}
        self._identities: dict[tuple[int, tuple[str, ...]], list[tuple[Any, ...]]] = {}
        self._last: dict[tuple[int, tuple[str, ...], tuple[Any, ...]], int] = {}
        self._highest: tuple[int, tuple[str, ...], tuple[Any, ...]] = (-1, (), ())

    def add(self, records: Sequence[Record]) -> None:
        """Add recorded outputs, without those of other inputs and ranges."""
        for record in records:
            ref = self.ref(record)
            if ref is None:
                self.foreign += 1
                continue
            inside = self._first <= ref.offset < self._end
            if ref.topic != self._topic:
                continue
            if 0 < ref.version < self._oldest:
                self.older += inside
                continue
            if self.lowest is None or ref.offset < self.lowest:
                self.lowest = ref.offset
            if inside:
                self._take(ref, _digest(self.bare(record)))

    def _take(self, ref: OutputRef, number: Digest) -> None:
        about = ref.offset, ref.subject
        known = self._versions.get(about, ref.version)
        if ref.version < known:
            self.older += 1
            return
        own = self._digests.setdefault(ref.offset, {})
        identities = self._identities.setdefault(about, [])
        if ref.version > known:
            self.older += len(identities)
            self.count -= len(identities)
            for identity in identities:
                del own[identity]
            identities.clear()
        self._versions[about] = ref.version
        if ref.identity not in own:
            identities.append(ref.identity)
        place = (*about, ref.identity)
        before = own.get(ref.identity)
        if before is None or number.envelope or not before.is_like(number):
            own[ref.identity] = number
        if before is None:
            self.count += 1
            self._late = self._late or place < self._highest
            self._highest = max(self._highest, place)
        elif before.is_like(number):
            self.repeats += 1
        else:
            self._unequal = ref.offset if self._unequal is None else min(self._unequal, ref.offset)
        self._taken += 1
        self._last[place] = self._taken

    @cached_property
    def _disorder(self) -> int | None:
        if not self._late:
            return None
        places = sorted((*about, identity) for about, own in self._identities.items() for identity in own)
        # Those of one record about several streams are in any order.
        pairs = ((a, b) for a, b in pairwise(places) if a[0] != b[0] or a[1] == b[1])
        return next((later[0] for place, later in pairs if self._last[later] < self._last[place]), None)

    def first_difference(self, messages: Sequence[Message], first: int, end: int) -> int | None:
        """Return the lowest offset whose replayed outputs differ from the recorded ones."""
        replayed: dict[int, dict[tuple[Any, ...], Digest]] = {}
        for message in messages:
            found = self.ref(message)
            # An alert that opened under an abandoned version can clear under a later one.
            if found is not None and not 0 < found.version < self._oldest:
                replayed.setdefault(found.offset, {})[found.identity] = _digest(self.bare(message))
        recorded = {offset: self._digests[offset] for offset in range(first, end) if offset in self._digests}
        different = [
            offset
            for offset in {*replayed, *recorded}
            if not _alike(recorded.get(offset, {}), replayed.get(offset, {}))
        ]
        return self._lowest_of(different, first, end)


class Unordered(Others):
    """Digests of outputs that do not show their order within one record, so that order is not checked."""

    @property
    def _disorder(self) -> int | None:
        return None


def _version(value: bytes) -> int:
    place = value.index(_VERSION) + len(_VERSION)
    return int(value[place : value.index(b",", place)])


def _alike(recorded: Mapping[Any, Digest], replayed: Mapping[Any, Digest]) -> bool:
    """Whether the same outputs were recorded about a record as are replayed."""
    return recorded.keys() == replayed.keys() and all(own.is_like(replayed[name]) for name, own in recorded.items())


def _digest(message: Message | Record) -> Digest:
    bare = without_envelope(message.headers)
    has_envelope = len(bare) < len(message.headers)
    # The hash of an envelope is that of all headers.
    envelope = (hash(tuple(map(tuple, message.headers))) or 1) if has_envelope else 0
    return Digest(hash((message.key, message.value, *bare)) or 1, envelope)
