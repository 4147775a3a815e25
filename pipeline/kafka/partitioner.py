"""Kafka's default partitioner: a record goes to the partition where any Java producer puts its key."""

from functools import lru_cache
from typing import Final

CACHED: Final = 50_000
"""Keys whose hash is kept; most records of a file share theirs."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes | None, partitions: int, index: int = 0) -> int:
    """Return the partition of a record; records without a key take the partitions in turn, by their `index`."""
    if key is None:
        return index % partitions
    return (_hash(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of a key as Kafka's Java clients compute it, as an unsigned number."""
    value = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        value = (value * _M & _MASK) ^ k
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)


_hash: Final = lru_cache(CACHED)(murmur2)
