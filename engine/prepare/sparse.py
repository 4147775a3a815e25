"""From the sparse records of a stream to the batches that its engine learns: form, feature dictionary and scale."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
from resonance.engine.base import BoolArray, Cluster, Engine, FloatArray, IntArray
from resonance.engine.errors import ParameterError, RecordError, StateError
from resonance.engine.prepare.scaling import Described
from resonance.engine.prepare.sparse_scale import REVISION, SparseScale
from resonance.engine.prepare.transform import value_problem
from resonance.engine.sparse import SparseBatch, SparseEngine
from resonance.engine.state import pack, unpack
from resonance.kernels.table import require

KIND: Final = "sparse_prepare"

NAME_BYTES: Final = 1_000
"""Longest name of a feature, as JSON between its quotes; bounded because events name the most salient features."""

_FEW: Final = 8
"""Names for each entry above which sorting the entries is faster than writing arrays for all names."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Decoded sparse records, possibly of several streams and of both forms."""

    codes: IntArray
    """Shape (entries,): of a record by index the features, of one by name their positions in `names`."""
    indptr: IntArray
    """Shape (n + 1,): where the entries of each record begin, and the end."""
    data: FloatArray
    """Shape (entries,): the values."""
    by_index: BoolArray
    """Shape (n,): the form of each record."""
    names: Sequence[str]
    """Names of features, in the order of their first appearance."""

    def __len__(self) -> int:
        return len(self.by_index)

    def __getitem__(self, positions: Any) -> "SparseRows":
        """Return the records at some positions, in the order of these."""
        chosen = np.asarray(positions, np.int64)
        starts = self.indptr[chosen]
        counts = self.indptr[chosen + 1] - starts
        indptr = starts_of(counts)
        entries = np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(self.codes[entries], indptr, self.data[entries], self.by_index[chosen], self.names)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the records of several batches as one batch, in order."""
        names = list(dict.fromkeys(chain.from_iterable(part.names for part in parts)))
        code = dict(zip(names, count(), strict=False))
        codes = []
        for part in parts:
            by_index = np.repeat(part.by_index, np.diff(part.indptr))
            places = np.array([code[name] for name in part.names], np.int64)
            own = part.codes.copy()
            own[~by_index] = places[own[~by_index]]
            codes.append(own)
        return cls(
            np.concatenate([np.empty(0, np.int64), *codes]),
            starts_of(np.concatenate([np.empty(0, np.int64), *(np.diff(part.indptr) for part in parts)])),
            np.concatenate([np.empty(0), *(part.data for part in parts)]),
            np.concatenate([np.empty(0, np.bool_), *(part.by_index for part in parts)]),
            names,
        )


class Problem(NamedTuple):
    """Why a sparse record cannot be prepared."""

    kind: Literal["out_of_range", "too_many_features", "name_too_long", "wrong_type"]
    text: str
    """What is wrong and what to do."""


class _Looked(NamedTuple):
    """Some records of one form, entry by entry."""

    features: IntArray
    """Index of each entry's feature; -1 where the dictionary lacks its name."""
    place: IntArray
    """Where each entry's feature stands in `width` and, for records by name, in `names`."""
    names: Sequence[str]
    """The names that occur in records by name."""
    width: FloatArray
    """Divisor of each feature."""
    prepared: FloatArray
    """As `SparseScale.run` returns it, like `faults`."""
    faults: IntArray
    outside: int
    """Entries outside the range."""
    faulty: int
    """Entries that cannot be prepared or whose index is beyond the last feature."""


class SparsePreparation:
    """Prepares sparse records as `Preparation` does dense ones, without a warm-up and with features that may grow.

    The first usable record with an entry decides the form of the stream's records; records without entries fit both
    forms. Where records name their features, each name gets an index in the order of first appearance in the log, so
    that names and indices are a function of the log alone.
    """

    ready: Final = True
    wanted: Final = 0
    held: Final = 0
    settling: Final = False
    """There is one scale from the first record on."""
    room: Final = None
    """None: the scale is never frozen anew."""
    dimension: Final = 0
    """0: prepared records have no fixed length."""
    features: Final[tuple[str, ...]] = ()
    columns: Final[tuple[str, ...]] = ()
    """Empty: no feature is in every record."""

    def __init__(self, scale: SparseScale, most: int) -> None:
        self.compared = self.outside = 0
        """Entries that were compared with their range, and how many of them were outside."""
        self.clip = scale.clip
        """Whether values outside [0, 1] become 0 or 1."""
        self.most = most
        """Features that are allowed: the engine's ``max_features``."""
        self._scale = scale
        self._by_index: bool | None = None
        self._names: list[str] = []
        self._index: dict[str, int] = {}

    @property
    def known_features(self) -> list[str]:
        """Names in the order of their indices; empty where records are by index."""
        return list(self._names)

    @property
    def most_known(self) -> int:
        """Most features that the engine behind it can have learned."""
        return self.most if self._by_index else len(self._names)

    def names_of(self, features: IntArray) -> list[str]:
        """Return the names of features; ``f3`` for index 3 where records are by index."""
        if self._by_index:
            return [f"f{index}" for index in features.tolist()]
        return [self._names[index] for index in features.tolist()]

    def describe(self, cluster: Cluster) -> Described:
        """Return the centre and the spread of a cluster in the units of the input."""
        names = [] if cluster.features is None else self.names_of(cluster.features)
        return Described(names, *self._scale.to_input_units(names, cluster.centre, cluster.spread))

    def hold(self, rows: SparseRows) -> None:
        """Refuse records of a warm-up: there is none."""
        raise TypeError("sparse records have no warm-up")

    def freeze(self) -> SparseBatch:
        """Refuse to end a warm-up: there is none."""
        raise TypeError("sparse records have no warm-up")

    def rescale(self) -> None:
        """Keep the scale."""

    def check_engine(self, engine: Engine) -> None:
        """Raise `StateError` for an engine that has not learned what this prepares."""
        if not isinstance(engine, SparseEngine):
            raise StateError(f"{engine.name} behind a preparation of sparse records, which it does not take")
        if engine.fixed:
            raise StateError(f"{engine.name} with records of fixed length behind a preparation of sparse ones")
        most = engine._given.get("max_features")
        if most != self.most:
            raise StateError(f"{engine.name} with max_features = {most} behind a preparation of {self.most:,}")
        if engine.dimension > self.most_known:
            columns = self.most_known
            raise StateError(f"an engine of dimension {engine.dimension} behind a preparation of {columns} columns")

    def apply(self, rows: SparseRows) -> SparseBatch:
        """Prepare a batch and add new names to the dictionary.

        Raise `RecordError`, with nothing changed, if a record cannot be prepared; `check` reports which and why.
        """
        batch, names, form, outside = self._prepared(rows)
        if not len(rows.codes):
            return batch
        self._index |= zip(names, count(len(self._names)), strict=False)
        self._names += names
        self._by_index = form
        if self._scale.ranged:
            self.compared += len(rows.codes)
            self.outside += outside
        return batch

    def transform_next(self, rows: SparseRows) -> SparseBatch:
        """Prepare a batch that is not learned as `apply` would the next one; nothing changes."""
        return self._prepared(rows)[0]

    def _prepared(self, rows: SparseRows) -> tuple[SparseBatch, list[str], bool, int]:
        """Return a prepared batch, its new names, the form of its records, and values outside their ranges."""
        if not len(rows.codes):
            # Records without entries fit both forms and decide neither.
            return SparseBatch(rows.codes, rows.indptr, rows.data), [], False, 0
        forms = rows.by_index[np.diff(rows.indptr) > 0]
        form = bool(forms[0]) if self._by_index is None else self._by_index
        if (forms != form).any():
            raise RecordError(0, "records of both forms")
        looked = self._look(rows, by_index=form)
        features, unknown = looked.features, looked.features < 0
        new = list(dict.fromkeys(looked.place[unknown].tolist())) if unknown.any() else []
        names = [looked.names[place] for place in new]
        if looked.faulty or len(self._names) + len(names) > self.most or any(map(_is_too_long, names)):
            raise RecordError(0, "a record of the batch cannot be prepared")
        if new:
            added = np.empty(len(looked.names), np.int64)
            added[new] = np.arange(len(self._names), len(self._names) + len(new))
            features = np.where(unknown, added[looked.place], features)
        return SparseBatch(features, rows.indptr, looked.prepared), names, form, looked.outside

    def check(self, rows: SparseRows) -> dict[int, Problem]:
        """Return the fault of each record that cannot be prepared, in order; empty when `apply` takes them all."""
        problems: dict[int, Problem] = {}
        new: dict[int, list[str]] = {}
        for by_index in (True, False):
            chosen = np.flatnonzero(rows.by_index == by_index)
            if len(chosen):
                self._check_form(rows[chosen], chosen.tolist(), by_index, problems, new)
        form, grown = self._by_index, set[str]()
        filled = np.flatnonzero(np.diff(rows.indptr))
        for position, by_index in zip(filled.tolist(), rows.by_index[filled].tolist(), strict=True):
            if form not in (None, by_index):
                problems[position] = _other_form(by_index)
            elif position not in problems:
                names = [name for name in new.get(position, ()) if name not in grown]
                count = len(self._names) + len(grown) + len(names)
                if count > self.most:
                    more = f"{len(names):,} more feature{'s' if len(names) > 1 else ''}"
                    text = f"{more}, {names[0]} first, would make {count:,}"
                    problems[position] = self._too_many(text)
                    continue
                form = by_index
                grown.update(names)
        return dict(sorted(problems.items()))

    def _check_form(
        self,
        rows: SparseRows,
        positions: Sequence[int],
        by_index: bool,
        problems: dict[int, Problem],
        new: dict[int, list[str]],
    ) -> None:
        """Add the faults of the records of one form to `problems` and their new names to `new`."""
        looked = self._look(rows, by_index=by_index)
        record = np.repeat(np.asarray(positions), np.diff(rows.indptr))
        for entry in np.flatnonzero((looked.faults != 0) | (looked.features >= self.most) | (looked.features < 0)):
            at, place = int(record[entry]), int(looked.place[entry])
            if at in problems:
                continue
            code = int(rows.codes[entry])
            if looked.features[entry] >= self.most:
                problems[at] = self._too_many(f"there is no feature {code:,}, they count from 0 to {self.most - 1:,}")
                continue
            name = f"f{code}" if by_index else looked.names[place]
            if looked.features[entry] < 0:
                if _is_too_long(name):
                    problems[at] = _long_name(name)
                    continue
                new.setdefault(at, []).append(name)
            if fault := int(looked.faults[entry]):
                width = float(looked.width[place])
                text = value_problem(name, float(rows.data[entry]), width, fault)
                problems[at] = Problem("out_of_range", text)

    def _look(self, rows: SparseRows, *, by_index: bool) -> _Looked:
        """Look up the features of records of one form, and prepare their values."""
        codes, names = rows.codes, list[str]()
        if not by_index:
            used, place = _occurring(codes, len(rows.names))
            names = [rows.names[code] for code in used.tolist()]
            features = np.fromiter(map(self._index.get, names, repeat(-1)), np.int64, len(names))[place]
            logs, width = self._scale.factors(names)
        elif self._scale.names_features:
            used, place = np.unique(codes, return_inverse=True)
            features = codes
            logs, width = self._scale.factors([f"f{code}" for code in used.tolist()])
        else:
            place, features = np.zeros(len(codes), np.int64), codes
            logs, width = self._scale.factors([""])
        prepared, faults, outside, faulty = self._scale.run(rows.data, place, logs, width)
        faulty += int(np.count_nonzero(features >= self.most))
        return _Looked(features, place, names, width, prepared, faults, outside, faulty)

    def _too_many(self, what: str) -> Problem:
        text = f"{what}: engine.max_features is {self.most:,}; raise it, or send fewer features"
        return Problem("too_many_features", text)

    def state(self) -> bytes:
        """Return everything that the next record depends on, canonical (equal states, equal bytes)."""
        header = {
            **self._scale.settings(),
            "most": self.most,
            "by_index": self._by_index,
            "compared": self.compared,
            "outside": self.outside,
        }
        return pack(KIND, REVISION, header, {"names": np.frombuffer(_json(self._names), np.uint8)})

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from a `state`."""
        header, arrays = unpack(data, KIND, REVISION)
        try:
            scale = SparseScale(*(header[name] for name in ("scale", "log1p", "ranges", "clip")))
            made = cls(scale, int(header["most"]))
            made._by_index = header["by_index"]
            made.compared, made.outside = int(header["compared"]), int(header["outside"])
            made._names = names = json.loads(arrays["names"].tobytes())
            require(isinstance(names, list) and all(type(name) is str for name in names), "no list of names")
            made._index = {name: index for index, name in enumerate(names)}
            require(len(made._index) == len(names), "a name that comes twice")
            form = made._by_index
            require(form is None or isinstance(form, bool), f"by_index = {form!r}")
            what = f"{len(names):,} names, by_index = {form}, most = {made.most:,}"
            require(len(names) <= (made.most if form is False else 0), what)
            require(0 <= made.outside <= made.compared, f"{made.outside:,} of {made.compared:,} outside")
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ParameterError) as error:
            raise StateError(f"the state of {KIND} cannot be read: {error!r}") from error
        return made


def starts_of(counts: IntArray) -> IntArray:
    """Return where runs of some lengths begin, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _occurring(codes: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return which of `size` codes occur, ascending, and the position of each entry's code among these."""
    if len(codes) < size // _FEW:
        # This is one stream of many: all of them together have many more names than this one.
        used, places = np.unique(codes, return_inverse=True)
        return used, places
    marks: BoolArray = np.zeros(size, np.bool_)
    marks[codes] = True
    used = np.flatnonzero(marks)
    places = np.empty(size, np.int64)
    places[used] = np.arange(len(used))
    return used, places[codes]


def _json(content: str | list[str]) -> bytes:
    """Return JSON without spaces, in UTF-8."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _bytes_of(name: str) -> int:
    """Return the size of a name in JSON between its quotes."""
    return len(_json(name)) - 2


def _is_too_long(name: str) -> bool:
    return len(name) > NAME_BYTES or _bytes_of(name) > NAME_BYTES


def _long_name(name: str) -> Problem:
    text = f"the name {name[:40]}... has {_bytes_of(name):,} bytes, {NAME_BYTES:,} are allowed; shorten it"
    return Problem("name_too_long", text)


def _other_form(by_index: bool) -> Problem:
    forms = ("an object name -> number", "indices and values")
    text = f"the features are {forms[by_index]}, those of the stream's first record are {forms[not by_index]}"
    return Problem("wrong_type", f"{text}; send one form in a stream")
