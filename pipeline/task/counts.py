"""What a partition task counts, for the metrics and for what a worker says of its work."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from resonance.pipeline.errors import counted
from resonance.schemas.common import place_of, place_text

SHOWN_CHARACTERS: Final = 80
"""Most characters that are shown of the value of a dead letter."""

_CHARACTER: Final = re.compile(r"\(char ([0-9]+)\)")
_SUBJECT: Final = re.compile(r"(.*?)(?:\[([0-9]+)\])? is ", re.DOTALL)
_KEY: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')


class DeadLetterExample(NamedTuple):
    """One of the first dead letters of its class that a task has written."""

    kind: str
    timestamp: int
    """Kafka's, of its record."""
    source: tuple[str, int, int, int | None]
    """Topic, partition, offset and element of its record."""
    message: str
    value: bytes
    """The first bytes of its record's value."""

    @property
    def where(self) -> str:
        """Where its record stands: ``features[0]@42``."""
        return place_text(place_of(*self.source))

    @property
    def age(self) -> tuple[int, int]:
        """What orders those of several partitions: time and offset."""
        return self.timestamp, self.source[2]

    def as_json(self) -> dict[str, str]:
        """Return the example as people read it."""
        value = self.value.decode(errors="replace")
        at = _place(value, self.message) if len(value) > SHOWN_CHARACTERS else 0
        begin = max(at - SHOWN_CHARACTERS // 4, 0) if at > SHOWN_CHARACTERS // 2 else 0
        shown = f"{'...' * bool(begin)}{value[begin:]}"
        if len(shown) > SHOWN_CHARACTERS:
            shown = f"{shown[: SHOWN_CHARACTERS - 3]}..."
        return {"source": self.where, "class": self.kind, "message": self.message, "value": shown}


def _place(value: str, message: str) -> int:
    """Return where the part of a record stands that a message is about; 0 where that does not show."""
    if found := _CHARACTER.search(message):
        return int(found[1])
    name, element = _SUBJECT.match(message + " is ").groups()  # type: ignore[union-attr]
    at = next((key.start() for key in _KEY.finditer(value) if f".{name}".endswith(f".{key[1]}")), 0)
    # Of an array of numbers, in which no comma is another one.
    for _ in range(int(element or 0)):
        at = max(value.find(",", at + 1), at)
    return at


class Totals(NamedTuple):
    """Sums over the models of a task."""

    compared: int = 0
    """Values of features that have a frozen range, since the streams began."""
    outside: int = 0
    """Those of them that were outside their range."""
    snapshot_bytes: int = 0
    """Bytes of the newest snapshots."""
    labelled: int = 0
    """Records that were learned with labels, since the streams began."""
    waiting: int = 0
    """Label messages whose record has not come yet."""
    unlabelled: int = 0
    """Records whose features are kept for late labels."""
    learn_labels: int = 0
    """Models that learn from labels."""
    open_drifts: int = 0
    """Streams with a change that has not settled."""
    watch_drift: int = 0
    """Models whose records are watched for changes."""
    warming_up: int = 0
    """Models whose warm-up lasts: they have no clusters yet."""
    held: int = 0
    """Records that have come for these warm-ups."""
    warm_up: int = 0
    """Records that these warm-ups take."""
    crowded: int = 0
    """Models with fewer nodes than their clusters need."""

    @property
    def warm_up_text(self) -> str:
        """How far the warm-ups are that last; empty where none does."""
        if not self.warming_up:
            return ""
        return f"{counted(self.warming_up, 'stream')} in the warm-up ({self.held:,} of {self.warm_up:,} records)"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of a partition task since it was made, suppressed records included."""

    records: int = 0
    skipped: int = 0
    """Records with a null value."""
    dead_letters_by_stage: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Dead letters by stage and class."""
    dead_letter_examples: Mapping[tuple[str, str], Sequence[DeadLetterExample]] = field(default_factory=dict)
    """The first ones of each that were written."""
    stream_loads: int = 0
    """Models that came back from the temporary file."""
    totals: Totals = field(default_factory=Totals)
    foreign: int = 0
    """Messages on the routes that no worker wrote."""
    repeated: int = 0
    """Routes that were dropped because their record had come already, or will come again."""

    def since(self, before: Self) -> Self:
        """Return what was counted after other counts."""
        return replace(
            self,
            records=self.records - before.records,
            skipped=self.skipped - before.skipped,
            dead_letters_by_stage=self.dead_letters_by_stage - before.dead_letters_by_stage,
            stream_loads=self.stream_loads - before.stream_loads,
            totals=Totals(*(now - then for now, then in zip(self.totals, before.totals, strict=True))),
            foreign=self.foreign - before.foreign,
            repeated=self.repeated - before.repeated,
        )

    @property
    def dead_letters(self) -> Counter[str]:
        """Dead letters by class."""
        counted: Counter[str] = Counter()
        for (_, kind), count in self.dead_letters_by_stage.items():
            counted[kind] += count
        return counted
