"""What the texts of a stream's clusters speak of: words that stand in those of one much more often than in the others'.

Keywords have weighted log-odds with an informative Dirichlet prior (Monroe, Colaresi, Quinn 2008) that are far above 0,
of texts that have a word against those that have it not, and of these the highest F measure. Common words are frequent
elsewhere, too, if less so beside terse texts: `PRECISE` leaves them out without a list of them. Of the counts of a
cluster only what is certain counts (`text.words`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import starmap
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import Event, Step
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.pipeline.text import words
from resonance.pipeline.text.words import ENTRIES, SETS, WAYS

KIND: Final = "keywords"
REVISION: Final = 2

KEYWORDS: Final = 3
"""Most keywords of a cluster."""

TEXT_CHARACTERS: Final = 1_000
"""Characters of a text that are read."""

FIRST_LOOK: Final = 64
LOOK: Final = 512
"""Records of a stream after which keywords are found anew; at first it is after 64, 128, 256, and so on."""

REST: Final = -1
"""Stands for the records without a cluster, and for novel ones."""

SURE: Final = 4.0
"""Least log-odds of a keyword, in units of their standard error."""

PRECISE: Final = 0.8
"""Least part of the texts with a keyword that are of the cluster, if it had as many as the others have."""

COVERED: Final = 0.05
"""Least share of a cluster's texts that has a keyword."""

TENABLE: Final = 0.8
"""Part of what the last of the best has, from which on a keyword stays."""

ALIKE: Final = 0.6
"""Share of a word's texts from which on a pair with it says the same."""


class _DistinctiveWord(NamedTuple):
    """A word, or a pair of words, that may be a keyword."""

    apart: float
    """How well it separates the cluster's texts from the others, at most 1."""
    name: str
    texts: int
    """Texts that have it."""


class Keywords:
    """Words of the texts of each cluster of a stream's first level, and the keywords that follow from them.

    All of it is a function of the log alone: how it is cut into batches does not matter, as long as no batch is larger
    than `room`.
    """

    __slots__ = ("_counts", "_due", "_free", "_named", "_rows", "_seen")

    def __init__(self) -> None:
        # The group of each cluster, and those of clusters that ended, which are empty.
        self._rows: dict[int, int] = {}
        self._free: list[int] = []
        self._counts = words.new_counts(0)
        self._named: dict[int, list[str]] = {}
        self._seen, self._due = 0, FIRST_LOOK

    @property
    def room(self) -> int:
        """Records until keywords are found anew; where that is due, behind it."""
        return self._due - self._seen or min(self._seen, LOOK)

    def of(self, cluster: int) -> list[str]:
        """Return the keywords of a cluster, as they were found last."""
        return self._named.get(cluster, [])

    def take(
        self,
        step: Step,
        learned: Sequence[int],
        texts: Sequence[str | None],
        places: Sequence[int],
        start: int,
        stop: int,
    ) -> None:
        """Count the texts of the rows from `start` to `stop`, which stand at `places`; `step` is of `learned`."""
        first, end = bisect_left(learned, start), bisect_left(learned, stop)
        self._seen += end - first
        given = [(at, text) for at in range(first, end) if (text := texts[places[learned[at]]])]
        if not given:
            return
        rows = [at for at, _ in given]
        clusters = np.where(step.novel[rows], REST, np.maximum(step.cluster[rows, 0], REST))
        own, group = np.unique(clusters, return_inverse=True)
        groups = np.array([self._row(cluster) for cluster in own.tolist()])[group]
        # One by one, because a text beyond ASCII makes this slow for all that are joined with it.
        lower = [text[:TEXT_CHARACTERS].lower() for _, text in given]
        if (joined := "\0".join(lower)).count("\0") >= len(given):
            joined = "\0".join([text.replace("\0", " ") for text in lower])
        data = joined.encode(errors="replace") + b"\0"
        words.count_words(np.frombuffer(data, np.uint8)[np.newaxis], groups, self._counts, words.room())

    def _row(self, cluster: int) -> int:
        """Return the group of a cluster, which may be new."""
        row = self._rows.get(cluster)
        if row is None:
            row = self._free.pop() if self._free else len(self._rows)
            if row == len(self._counts.total):
                self._counts = words.new_counts(row + row // 4 + 1, self._counts)
            self._rows[cluster] = row
        return row

    def follow(self, event: Event) -> None:
        """Give the words of a cluster that was absorbed to the one that goes on; forget those of one that ended."""
        if event.kind == "absorbed" and event.other is not None and event.cluster in self._rows:
            # A new group may need other tables.
            heir = self._row(event.other)
            words.merge(self._counts, self._rows[event.cluster], heir)
        if event.kind in ("absorbed", "vanished"):
            self._named.pop(event.cluster, None)
            if (row := self._rows.pop(event.cluster, None)) is not None:
                self._free.append(row)
                for each in self._counts:
                    each[row] = 0

    def look(self) -> dict[int, tuple[list[str], list[str]]]:
        """Find keywords anew where that is due; return those that are others now, before and after, by cluster.

        Keywords stay as long as they are distinctive.
        """
        if self._seen < self._due:
            return {}
        self._due = self._seen + min(self._seen, LOOK)
        changed = {}
        for cluster, ranked in self._distinctive().items():
            old = self._named.get(cluster, [])
            if (new := _chosen(ranked, old)) != old:
                self._named[cluster] = new
                changed[cluster] = old, new
        return changed

    def _distinctive(self) -> dict[int, list[_DistinctiveWord]]:
        """Return the distinctive words and pairs of each cluster, the most distinctive first."""
        order = sorted(self._rows)
        rows = [self._rows[cluster] for cluster in order]
        keys, counts, errors, texts, total = words.some_of(self._counts, rows)
        counts, errors = counts.astype(np.int64), errors.astype(np.int64)
        # What a full set has no place for came about as often as the least of it.
        absent = counts.reshape(-1, SETS, WAYS).min(2) // 2
        same = np.unique(keys, return_inverse=True)[1].ravel()
        beyond = np.bincount(same, weights=(counts - np.repeat(absent, WAYS, axis=1)).ravel())
        others = beyond[same.reshape(keys.shape)].astype(np.int64) + np.repeat(absent.sum(0), WAYS) - counts
        docs = np.repeat(total[:, np.newaxis], ENTRIES, axis=1)
        rest = total.sum() - docs
        odds = np.zeros(keys.shape)
        words.log_odds(counts - errors, docs, np.minimum(others, rest), rest, odds)
        # Van Rijsbergen's measure with precision three times as important: who has the word is of the cluster, if both
        # are equally many, and the cluster has the word.
        inside, outside = (counts - errors) / np.maximum(docs, 1), np.minimum(others, rest) / np.maximum(rest, 1)
        precise = inside / np.maximum(inside + outside, 1e-9)
        apart = 10 * precise * inside / np.maximum(precise + 9 * inside, 1e-9)
        wanted = (keys != 0) & (odds >= SURE) & (precise >= PRECISE) & (counts - errors >= COVERED * docs)
        found = {}
        for at, cluster in enumerate(order):
            if cluster != REST:
                places = np.flatnonzero(wanted[at])
                named = [bytes(each[1 : 1 + each[0]]).decode() for each in texts[at, places]]
                columns = apart[at, places].tolist(), named, counts[at, places].tolist()
                candidates = starmap(_DistinctiveWord, zip(*columns, strict=True))
                found[cluster] = sorted(candidates, key=lambda each: (-each.apart, each.name))
        return found

    def state(self) -> bytes:
        """Return the canonical state (equal states, equal bytes)."""
        order = sorted(self._rows)
        rows = [self._rows[cluster] for cluster in order]
        _, counts, errors, texts, total = words.some_of(self._counts, rows)
        used = texts[counts > 0]
        header = {
            "seen": self._seen,
            "due": self._due,
            "clusters": order,
            "texts": total.tolist(),
            "named": sorted(self._named.items()),
        }
        arrays = {
            "counts": np.stack((counts, errors)).astype("<u2").view(np.uint8),
            "lengths": used[:, 0],
            "words": used[:, 1:][np.arange(words.ENTRY_BYTES) < used[:, :1]],
        }
        return pack(KIND, REVISION, header, arrays)

    @classmethod
    def from_state(cls, data: bytes) -> "Keywords":
        """Continue from a `state`; `StateError` where it cannot be read."""
        header, arrays = unpack(data, KIND, REVISION)
        made = cls()
        try:
            made._read(header, arrays)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StateError(f"the keywords of a stream cannot be read: {error!r}") from error
        return made

    def _read(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        seen, due, clusters, documents = (header[name] for name in ("seen", "due", "clusters", "texts"))
        self._named = dict(header["named"])
        stored, lengths, text = (arrays[name] for name in ("counts", "lengths", "words"))
        named = [name for names in self._named.values() for name in names]
        # Before anything is made of them: the kernels trust lengths, and tables take more room than the state.
        if (
            not {type(each) for each in (seen, due, *clusters, *documents, *self._named)} <= {int}
            or seen < 0
            or not (0 < due - seen <= LOOK or seen == due > 0)
            or clusters != sorted({*clusters})
            or min(clusters, default=REST) < REST
            or len(documents) != len(clusters)
            or not all(0 <= each <= words.MEMORY for each in documents)
            or not self._named.keys() <= {*clusters}
            or any(type(names) is not list or len(names) > KEYWORDS for names in self._named.values())
            or any(type(name) is not str or not 0 < len(name.encode()) <= words.ENTRY_BYTES for name in named)
            or not stored.dtype == lengths.dtype == text.dtype == np.uint8
            or (stored.shape, lengths.ndim, text.ndim) != ((2, len(clusters), 2 * ENTRIES), 1, 1)
            or len(lengths) != np.count_nonzero(stored[0].view("<u2"))
            or ((lengths == 0) | (lengths > words.ENTRY_BYTES)).any()
            or lengths.sum() != len(text)
        ):
            raise ValueError("members that do not belong together")
        self._seen, self._due = seen, due
        self._rows = {cluster: row for row, cluster in enumerate(clusters)}
        self._counts = words.new_counts(len(clusters))
        keys, counts, errors, texts, total = self._counts
        total[:] = documents
        counts[:], errors[:] = stored.view("<u2")
        used, ends = counts > 0, np.cumsum(lengths, dtype=np.int64)
        content = np.zeros((len(lengths), 1 + words.ENTRY_BYTES), np.uint8)
        content[:, 0] = lengths
        content[:, 1:][np.arange(words.ENTRY_BYTES) < content[:, :1]] = text
        texts[used] = content
        keys[used] = words.keys_of(text, ends)
        text.tobytes().decode()
        places = np.nonzero(used)[1]
        if (
            (errors > counts).any()
            or (counts > total[:, np.newaxis]).any()
            or (content[:, 1] & 0xC0 == 0x80).any()
            or ((keys[used] >> 1 & SETS - 1) != places // WAYS).any()
            or any(len(set(row[row != 0].tolist())) < np.count_nonzero(row) for row in keys)
        ):
            raise ValueError("counts that do not belong together")


def _chosen(ranked: Sequence[_DistinctiveWord], old: Sequence[str]) -> list[str]:
    """Return keywords: the `old` ones that are nearly as distinctive as the best, and then the best.

    A pair displaces those of its words that seldom stand without it; one that displaces none is no keyword.
    """
    counts = {each.name: each.texts for each in ranked}
    covered: dict[str, str] = {}
    for each in ranked:
        first, _, second = each.name.partition(" ")
        if second and first in counts and second in counts:
            covered |= {word: each.name for word in (first, second) if each.texts >= ALIKE * counts[word]}
    pairs = set(covered.values())
    named = [each for each in ranked if (each.name in pairs if " " in each.name else each.name not in covered)]
    least = TENABLE * named[:KEYWORDS][-1].apart if named else 0.0
    tenable = {each.name for each in named if each.apart >= least}
    chosen = [name for name in old if name in tenable]
    for each in named:
        if len(chosen) < KEYWORDS and not any(_alike(each.name, other) for other in chosen):
            chosen.append(each.name)
    return list(old) if set(chosen) == set(old) else chosen


def _alike(name: str, other: str) -> bool:
    """Return whether two keywords share a word, but for its ending."""
    return any(len(a) >= 3 and (a.startswith(b) or b.startswith(a)) for a in name.split() for b in other.split())
