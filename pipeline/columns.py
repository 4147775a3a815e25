"""Columns of many records or messages: texts and times that become Python objects when they are read."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import IntArray
from resonance.pipeline.text import times
from resonance.pipeline.text.paste import pieces_of

Item = TypeVar("Item")
Text = TypeVar("Text", bytes, bytes | None)
"""Bytes, or None as well."""


class Items(Sequence[Item]):
    """A sequence whose items are made when they are read, all of them at once; it equals a list of them."""

    __slots__ = ("_items",)
    __hash__ = None  # type: ignore[assignment] # it equals lists

    _items: list[Item] | None

    @abstractmethod
    def _made(self) -> list[Item]:
        """Return the items."""

    @abstractmethod
    def take(self, positions: Any) -> Self:
        """Return some of the items, given as numpy takes positions, as another column."""

    @property
    def items(self) -> list[Item]:
        """The items; not to be changed."""
        if self._items is None:
            self._items = self._made()
        return self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def _one(self, at: int) -> Item:
        """Return one item."""
        return self.items[at]

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> "Item | Self":
        return self.take(at) if isinstance(at, slice) else self._one(at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items | list) and self.items == list(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.of({self.items!r})"


class Texts(Items[Text]):
    """Parts of a text.

    Parameters
    ----------
    text : ndarray of uint8
        Contains all of them, anywhere.
    begins, ends : ndarray of int64
        Where each of them begins and ends.
    nulls : ndarray of bool, optional
        Which of them are None; their parts are empty.
    """

    __slots__ = ("begins", "ends", "nulls", "text")

    def __init__(
        self, text: NDArray[np.uint8], begins: IntArray, ends: IntArray, nulls: NDArray[np.bool_] | None = None
    ) -> None:
        self.text, self.begins, self.ends, self.nulls = text, begins, ends, nulls
        self._items = None

    @classmethod
    def of(cls, parts: Sequence[Text]) -> Self:
        """Return bytes as a column."""
        if isinstance(parts, cls):
            return parts
        ends = np.cumsum([len(part or b"") for part in parts], dtype=np.int64)
        nulls = np.array([part is None for part in parts]) if None in parts else None
        return cls(np.frombuffer(b"".join([part or b"" for part in parts]), np.uint8), behind(ends), ends, nulls)

    @classmethod
    def repeated(cls, part: Text, count: int) -> Self:
        """Return the same bytes, or None, some times."""
        text = np.frombuffer(part or b"", np.uint8)
        begins, ends = np.zeros(count, np.int64), np.full(count, len(text))
        return cls(text, begins, ends, np.ones(count, np.bool_) if part is None else None)

    @classmethod
    def joined(cls, parts: Sequence["Texts[Text]"]) -> Self:
        """Return the items of some columns, at least one, behind one another."""
        starts = np.cumsum([0, *(len(part.text) for part in parts[:-1])])
        nulls = [np.zeros(len(part), np.bool_) if part.nulls is None else part.nulls for part in parts]
        return cls(
            np.concatenate([part.text for part in parts]),
            np.concatenate([start + part.begins for start, part in zip(starts, parts, strict=True)]),
            np.concatenate([start + part.ends for start, part in zip(starts, parts, strict=True)]),
            np.concatenate(nulls) if any(part.nulls is not None for part in parts) else None,
        )

    def __len__(self) -> int:
        return len(self.ends)

    def _made(self) -> list[Text]:
        items: list[Any] = list(
            map(self.text.tobytes().__getitem__, map(slice, self.begins.tolist(), self.ends.tolist()))
        )
        if self.nulls is not None:
            for at in np.flatnonzero(self.nulls).tolist():
                items[at] = None
        return items

    def _one(self, at: int) -> Text:
        if self._items is not None:
            return self._items[at]
        is_null = self.nulls is not None and self.nulls[at]
        return None if is_null else self.text[self.begins[at] : self.ends[at]].tobytes()  # type: ignore[return-value]

    def take(self, positions: Any) -> Self:
        """Return some of the items."""
        nulls = None if self.nulls is None else self.nulls[positions]
        return type(self)(self.text, self.begins[positions], self.ends[positions], nulls)

    def longest(self) -> int:
        """Return the length of the longest item; 0 for none."""
        return int((self.ends - self.begins).max(initial=0))

    def pieces(self) -> bytes:
        """Return the items with a zero byte behind each, as `paste` takes them."""
        return pieces_of(self.text, self.begins, self.ends)


class Times(Items[str]):
    """Times in milliseconds since 1970, which are read as canonical texts."""

    __slots__ = ("milliseconds",)

    def __init__(self, milliseconds: IntArray) -> None:
        self.milliseconds = milliseconds
        self._items = None

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Return canonical times as a column."""
        return texts if isinstance(texts, cls) else cls(times.times_of(texts))

    def __len__(self) -> int:
        return len(self.milliseconds)

    def _made(self) -> list[str]:
        return times.texts_of(self.milliseconds)

    def take(self, positions: Any) -> Self:
        """Return some of the times."""
        return type(self)(self.milliseconds[positions])


def some_of(column: NDArray[Any], positions: Sequence[int]) -> NDArray[Any]:
    """Return the entries at ascending positions, which mostly are all of them."""
    return column if len(positions) == len(column) else column[positions]


def behind(ends: IntArray, gap: int = 0) -> IntArray:
    """Return where parts begin, each a `gap` behind the end of the one before."""
    begins: IntArray = np.empty_like(ends)
    begins[:1] = 0
    np.add(ends[:-1], gap, out=begins[1:])
    return begins


NO_TEXTS: Final = Texts[Any].of(())
