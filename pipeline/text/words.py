"""Words of many texts, found and counted by a kernel: in how many texts of a group each word, or pair of words, stands.

A word is a run of a to z, and of characters beyond ASCII but signs, of 3 to `WORD_BYTES` bytes; a run with a digit or
an apostrophe in it is none. Two words with one blank or hyphen between them are a pair. Each text counts once for a
word.

A group has room for `ENTRIES` of them, in sets of `WAYS`. In a full set what is new takes the place of what came least,
with its count as possible error, as in the space-saving algorithm (Metwally, Agrawal, El Abbadi 2005), but only once in
so many times as that count would then be (randomized admission; Ben Basat, Einziger, Friedman, Kassner 2017): long
texts have so many words that come once that no other would be known to be frequent. What is drawn follows from the word
and the number of texts. A pair is counted when both of its words are frequent already. No count is larger than the
number of texts.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import IntArray
from resonance.kernels.arithmetic import jit, log, mixed
from resonance.kernels.borrowed import row

SETS, WAYS = 32, 8
ENTRIES: Final = SETS * WAYS
"""Words and pairs that are counted of a group."""

WORD_BYTES = 32
"""Bytes of the longest word."""

ENTRY_BYTES: Final = 2 * WORD_BYTES + 1
"""Bytes of the longest pair."""

WORDS = 128
"""Words that are read of a text."""

MEMORY = 4096
"""Texts of a group beyond which its counts are halved."""

PRIOR = 50.0
"""Texts for which the prior of `log_odds` counts."""

_WIDTH = 1 + ENTRY_BYTES
_ROOM = 4 * WORDS
_KNOWN, _OFTEN = 4, 16  # a word is frequent that certainly came 4 times, and in one of 16 texts

# Of a byte: what ends a word, a part of one, a digit or an apostrophe.
_END, _PART, _DIGIT = 0, 1, 2


class WordCounts(NamedTuple):
    """The tables of some groups; the first axis of every array is the group, the second the entry."""

    keys: IntArray
    """Hashes; 0 where there is none."""
    counts: NDArray[np.uint16]
    """Texts that have it, about."""
    errors: NDArray[np.uint16]
    """What may be too much of the count."""
    texts: NDArray[np.uint8]
    """Its length, and its bytes."""
    total: IntArray
    """Texts of the group."""


def new_counts(groups: int, before: Any = ()) -> WordCounts:
    """Return tables of so many groups, the first of which are those `before`."""
    keys = np.zeros((groups, ENTRIES), np.int64)
    counts, errors = np.zeros((2, groups, ENTRIES), np.uint16)
    texts = np.zeros((groups, ENTRIES, 1 + ENTRY_BYTES), np.uint8)
    made = WordCounts(keys, counts, errors, texts, np.zeros(groups, np.int64))
    each: Any
    for each, old in zip(made, before, strict=False):
        each[: len(old)] = old
    return made


def room() -> IntArray:
    """Return room for the words of a text."""
    return np.full((2, _ROOM), -1)


def some_of(tables: WordCounts, groups: Any) -> WordCounts:
    """Return the tables of some groups: parts of them where these are a slice."""
    return WordCounts(*(each[groups] for each in tables))


@jit
def _kind(text, p):
    """Return what the character at a position is, and its bytes where it ends a word."""
    c = text[p]
    if 97 <= c <= 122:
        return _PART, 1
    if 48 <= c <= 57 or c == 39 or (c == 0xE2 and text[p + 1] == 0x80 and text[p + 2] == 0x99):
        return _DIGIT, 1
    if c < 128:
        return _END, 1
    # Signs of Latin-1, Arabic and East Asia, general punctuation, symbols, emoji; others are rare in texts. Where words
    # have no blanks between them a phrase counts as one word.
    after = text[p + 1]
    if c == 0xC2 or (c == 0xD8 and after < 0xA0):
        return _END, 2
    if (c == 0xE2 and after < 0xB0) or (c == 0xE3 and after == 0x80) or (c == 0xEF and after in (0xB8, 0xBC)):
        return _END, 3
    if c == 0xF0 and after == 0x9F:
        return _END, 4
    return _PART, 1


@jit
def _step(h, byte):
    """Return a hash with one byte more (FNV-1a)."""
    return (h ^ np.uint64(byte)) * np.uint64(0x100000001B3)


@jit
def _hashed(h, text, start, stop):
    for p in range(start, stop):
        h = _step(h, text[p])
    return h


@jit
def _key(h):
    """Return the key of a hash, which is not 0."""
    return np.int64(mixed(h, 0) | np.uint64(1))


@jit
def _begun():
    return np.uint64(0xCBF29CE484222325)


@jit
def set_of(key):
    """Return the first entry that a key can have."""
    return ((key >> 1) & (SETS - 1)) * WAYS


@jit
def _place(group, key):
    """Return the entry of a key; -1 without one."""
    first = set_of(key)
    for at in range(first, first + WAYS):
        if group.keys[at] == key:
            return np.int64(at)
    return np.int64(-1)


@jit
def _group(tables, group):
    """Return the tables of one group, for functions that must not count references."""
    return WordCounts(
        row(tables.keys, group),
        row(tables.counts, group),
        row(tables.errors, group),
        row(tables.texts, group),
        row(tables.total, group),
    )


@jit
def _add(group, key, text, start, stop, gap, count, error):
    """Count texts for a key; `gap` is where a blank stands in its bytes instead of what is there, -1 for nowhere."""
    at = _place(group, key)
    if at < 0:
        at = first = set_of(key)
        for other in range(first, first + WAYS):
            if group.counts[other] < group.counts[at]:
                at = other
        least = np.uint64(group.counts[at]) + np.uint64(count)
        if mixed(np.uint64(key), group.total[0]) % least >= np.uint64(count):
            return
        group.keys[at], group.errors[at] = key, group.counts[at]
        to = at * _WIDTH
        for p in range(to + 1 + stop - start, to + 1 + group.texts[to]):
            group.texts[p] = 0
        group.texts[to] = stop - start
        for p in range(start, stop):
            group.texts[to + 1 + p - start] = 32 if p == gap else text[p]
    group.counts[at] = min(group.counts[at] + count, group.total[0])
    group.errors[at] = min(group.errors[at] + error, np.int64(group.counts[at]))


@jit
def _is_frequent(group, key):
    at = _place(group, key)
    sure = np.int64(group.counts[at]) - np.int64(group.errors[at]) if at >= 0 else 0
    return sure >= _KNOWN and sure * _OFTEN >= group.total[0]


@jit
def _is_new(seen, stamps, t, key):
    """Return whether a key comes for the first time in text `t`, and note it."""
    at = (key >> 6) & (_ROOM - 1)
    while stamps[at] == t:
        if seen[at] == key:
            return False
        at = (at + 1) & (_ROOM - 1)
    seen[at], stamps[at] = key, t
    return True


@jit
def _halve(tables, group):
    tables.total[group] >>= 1
    for at in range(ENTRIES):
        tables.counts[group, at] >>= 1
        tables.errors[group, at] >>= 1
        if tables.counts[group, at] == 0:
            tables.keys[group, at] = 0
            tables.texts[group, at] = 0


@jit
def count_words(text, groups, tables, seen):
    """Count texts in lower case, each with a zero byte behind it, for their groups; `text` has one row.

    `seen` is room for the words of a text, as `room` makes it.
    """
    p = 0
    begins, ends = np.empty(WORDS, dtype=np.int64), np.empty(WORDS, dtype=np.int64)
    keys = np.empty(WORDS, dtype=np.int64)
    hashes = np.empty(WORDS, dtype=np.uint64)
    source, known, marks = row(text, 0), row(seen, 0), row(seen, 1)
    for t in range(len(groups)):
        found, group = 0, _group(tables, groups[t])
        group.total[0] += 1
        while source[p] != 0:
            kind, size = _kind(source, p)
            if kind == _END:
                p += size
                continue
            start, is_word = p, True
            while kind != _END:
                is_word &= kind == _PART
                p += 1
                kind, size = _kind(source, p)
            if is_word and 3 <= p - start <= WORD_BYTES and found < WORDS:
                hashes[found] = _hashed(_begun(), source, start, p)
                begins[found], ends[found], keys[found] = start, p, _key(hashes[found])
                found += 1
        p += 1
        for word in range(found):
            if _is_new(known, marks, t, keys[word]):
                _add(group, keys[word], source, begins[word], ends[word], -1, 1, 0)
        for word in range(1, found):
            gap = ends[word - 1]
            if begins[word] - gap != 1 or (source[gap] != 32 and source[gap] != 45):
                continue
            if _is_frequent(group, keys[word - 1]) and _is_frequent(group, keys[word]):
                key = _key(_hashed(_step(hashes[word - 1], 32), source, begins[word], ends[word]))
                if _is_new(known, marks, t, key):
                    _add(group, key, source, begins[word - 1], ends[word], gap, 1, 0)
        if group.total[0] > MEMORY:
            _halve(tables, groups[t])


@jit
def merge(tables, gone, heir):
    """Add the counts of a group to those of another one."""
    group, text = _group(tables, heir), row(tables.texts, gone)
    tables.total[heir] += tables.total[gone]
    for at in range(ENTRIES):
        count, error, start = np.int64(tables.counts[gone, at]), np.int64(tables.errors[gone, at]), at * _WIDTH + 1
        if count > 0:
            _add(group, tables.keys[gone, at], text, start, start + text[start - 1], -1, count, error)
    if tables.total[heir] > MEMORY:
        _halve(tables, heir)


@jit
def keys_of(text, ends):
    """Return the keys of words and pairs that stand one behind the other."""
    found, start = np.empty(len(ends), dtype=np.int64), 0
    for at in range(len(ends)):
        found[at] = _key(_hashed(_begun(), text, start, ends[at]))
        start = ends[at]
    return found


@jit
def log_odds(y, n, z, m, odds):
    """Set log-odds of `y` of `n` texts against `z` of `m`, in units of their standard error."""
    rows, columns = y.shape
    for i in range(rows):
        for j in range(columns):
            prior = PRIOR * (y[i, j] + z[i, j]) / max(n[i, j] + m[i, j], 1)
            if m[i, j] == 0 or n[i, j] == 0 or prior <= 0.0 or prior >= PRIOR:
                continue
            own, other = y[i, j] + prior, z[i, j] + prior
            apart = log(own / (n[i, j] + PRIOR - own)) - log(other / (m[i, j] + PRIOR - other))
            odds[i, j] = apart / np.sqrt(1.0 / own + 1.0 / other)


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    text = np.frombuffer(b"word\0", np.uint8)
    count_words(text[np.newaxis], np.zeros(1, np.int64), new_counts(1), room())
    keys_of(text, np.array([4]))
    merge(new_counts(2), 0, 1)
    counts = np.zeros((1, 1), np.int64)
    log_odds(counts, counts, counts, counts, np.zeros((1, 1)))
