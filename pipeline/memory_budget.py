"""How much memory a worker may take, and what of it each of its buffers gets.

The models are not part of it: they are the state of the deployment (`limits.streams_in_memory`).
"""

from dataclasses import dataclass
from typing import Final, Literal, Self

from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.machine import memory, resident

MIB: Final = 1024 * 1024

LEAST: Final = 384 * MIB
"""Least budget: 270 MiB for interpreter, libraries and kernels (measured), the rest for records."""

LEAST_FREE: Final = 64 * MIB
"""Least memory for records: a fetch, a batch and its outputs of a usual producer."""

SHARE: Final = 0.5
"""Budget in parts of what control group or machine have, by default: the models take memory beside it."""

PEAK: Final = 1.3
"""Peak of the process in parts of its budget: allocators keep some of what is freed."""

RECORD: Final = 200
"""Bytes that a record takes in memory beside its contents (measured: 187)."""

EXPANSION: Final = 1000
"""Bytes that a byte may become when it is unpacked: gzip's limit. Only zstd exceeds it."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The budget of a process in bytes, and the `base` that it takes before it reads anything."""

    total: int
    base: int = 0

    @classmethod
    def of(cls, limit: int | Literal["auto"]) -> Self:
        """Return the budget of this process, which has loaded its kernels and read nothing.

        Raises `ConfigurationError` where it leaves too little for records.
        """
        budget = cls.unchecked(limit)
        total, least = budget.total, max(LEAST, budget.base + LEAST_FREE)
        if total < least:
            given, remedy = f"{total:,}", "raise it"
            if limit == "auto":
                given = f"auto, {total:,} of the {memory():,} bytes of this container or machine"
                remedy = f"give the worker a container of at least {int(PEAK * least) + 1:,} bytes"
            raise ConfigurationError(
                f"limits.memory = {given}: must be at least {least:,} bytes, of which the program takes "
                f"{budget.base:,} before it reads anything; {remedy}"
            )
        return budget

    @classmethod
    def unchecked(cls, limit: int | Literal["auto"]) -> Self:
        """Return the budget of a process that may do with less: a command."""
        return cls(automatic() if limit == "auto" else limit, resident())

    def _share(self, part: int, most: int) -> int:
        return min((self.total - self.base) // part, most)

    @property
    def queued(self) -> int:
        """Records that wait for the processor."""
        return self._share(8, 64 * MIB)

    @property
    def taken(self) -> int:
        """Records that the client has unpacked ahead, and as many again in a round before they are queued.

        Where streams are re-keyed, as many may wait for those of other partitions.
        """
        return self._share(8, 64 * MIB)

    @property
    def batch(self) -> int:
        """An answer of a broker once it is unpacked (`foreign_answer`), or a batch of a producer that is larger."""
        return self._share(4, 1024 * MIB)

    @property
    def kept(self) -> int:
        """Outputs of a transaction that are kept to be sent again."""
        return self._share(8, 64 * MIB)

    @property
    def sending(self) -> int:
        """Outputs that the client has not sent yet."""
        return self._share(8, 1024 * MIB)

    @property
    def restored(self) -> int:
        """Records that a restore has read and not yet learned; nothing else is in memory then."""
        return self._share(8, 64 * MIB)

    @property
    def handed(self) -> int:
        """Records that a restore learns at once; they exist twice."""
        return self._share(32, 16 * MIB)

    @property
    def answer(self) -> int:
        """Bytes of an answer to a client that unpacks all of it at once, to a few times as much."""
        return self._share(64, 16 * MIB)

    @property
    def foreign_answer(self) -> int:
        """The same where it may become `EXPANSION` times as much."""
        return max(self._share(4, 1024 * MIB) // EXPANSION, 64 * 1024)


def automatic(processes: int = 1) -> int:
    """Return the budget of each of so many workers of this machine or container, where none is set."""
    own = memory() // processes
    # A small container has room for the least where its models are small.
    return max(int(SHARE * own), min(LEAST, int(own / PEAK)))
