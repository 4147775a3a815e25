"""That every test runs, in whichever order."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tests.conftest import long_first


@dataclass(frozen=True)
class Item:
    number: int
    path: str
    mark: str

    def iter_markers(self):
        yield SimpleNamespace(name=self.mark)


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("short", [0, 1, 5, 60])
def test_every_test_has_its_place_and_long_ones_begin(processes, short):
    long = [Item(n, f"file{n // 3}", "slow" if n % 2 else "broker") for n in range(13)]
    items = [Item(100 + n, "short", "unit") for n in range(short)] + long
    ordered = long_first(items, processes)
    assert sorted(ordered, key=items.index) == items
    assert ordered[0] in long
