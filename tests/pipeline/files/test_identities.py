"""Integers that name something, and numbers that are the same for each source, are no features."""

import random

import numpy as np
import pytest
from resonance.pipeline.files.rows import Columns

from tests.pipeline.files.surveyed import measured, noted, stamp

DRAW = random.Random(23)


def cells(**own):
    """Return records of nine cells that are read at once, with members that are made from the cell and the time."""
    return [
        measured(at=stamp(n), cell=f"c{k}", **{name: make(k, n) for name, make in own.items()})
        for n in range(900)
        for k in range(9)
    ]


@pytest.mark.parametrize(
    "number",
    [
        lambda k, n: 100 + 7 * k,
        lambda k, n: 4_700 + k // 3,
        lambda k, n: k,
        lambda k, n: 7.4 + 3.6 * (k % 3),
        lambda k, n: None if n % 7 == k else 22 + k,
        lambda k, n: -k * 10.0**9,
    ],
)
def test_what_is_the_same_in_all_records_of_each_source_is_no_feature(number):
    rows = cells(pci=number)
    for columns in (Columns(), Columns(key=("cell",))):
        found = noted(rows, columns)
        assert found.left_out == {"pci": "the same in all records of each cell"}
        assert "pci (the same in all records of each cell)" in str(found.findings[-1])
    assert "pci" in noted(rows, chosen=["pci", "load"]).features


@pytest.mark.parametrize("count", [1, 3, 300])
@pytest.mark.parametrize("begin", [40, 450, 890])
@pytest.mark.parametrize("as_float", [False, True])
def test_a_setting_that_is_another_one_for_a_while_is_a_feature(count, begin, as_float):
    unit = 0.25 if as_float else 1

    def limit(k, n):
        is_changed = k == 4 and begin <= n < begin + count
        return unit * (26 if is_changed else 20 + k % 6)

    assert "limit" in noted(cells(limit=limit)).features


def test_what_is_counted_in_one_cell_alone_for_a_while_is_a_feature():
    assert "drops" in noted(cells(drops=lambda k, n: (n % 3 + 1) * (k == 4 and 700 <= n < 705))).features
    assert "share" in noted(cells(share=lambda k, n: 0.25 * (k == 4 and 700 <= n < 702))).features


def test_to_a_model_of_all_sources_a_rated_power_says_something_and_an_id_does_not():
    few = [
        measured(at=stamp(n // 20), box=f"b{n % 20}", rated=7.5 * (1 + n % 3), serial_a=900 + n % 20)
        for n in range(3_000)
    ]
    found = noted(few)
    assert "rated" in found.features
    assert found.left_out["serial_a"] == "the same in all records of each box"


def cards(count, digits=10, known=None):
    """Return card numbers that are drawn from many, or from some that are known."""
    numbers = [DRAW.randrange(10 ** (digits - 1), 10**digits) for _ in range(known or count)]
    return [DRAW.choice(numbers) for _ in range(count)] if known else numbers


@pytest.mark.parametrize(
    "values",
    [
        cards(4_000),
        cards(4_000, 8),
        cards(4_000, known=900),
        cards(4_000, known=150),
        cards(4_000, known=20),
        [DRAW.getrandbits(32) for _ in range(4_000)],
        [DRAW.getrandbits(63) for _ in range(4_000)],
        [43_045 * 10**11 + DRAW.randrange(10**11) for _ in range(4_000)],
        [float(card) for card in cards(4_000)],
    ],
)
def test_integers_spread_evenly_without_an_order_or_that_come_again_are_those_of_cards(values):
    found = noted([measured(at=stamp(n), chip=value) for n, value in enumerate(values)])
    assert (found.features, [*found.left_out]) == (["load", "heat"], ["chip"])
    assert "integers" in found.left_out["chip"] and "as ids" in found.left_out["chip"]


RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    "values",
    [
        RNG.lognormal(16, 1, 4_000).astype(int),
        RNG.normal(5e7, 4e6, 4_000).astype(int),
        (5e7 + 2e7 * np.sin(np.arange(4_000) / 40) + RNG.normal(0, 1e5, 4_000)).astype(int),
        RNG.integers(0, 1_000, 4_000),
        RNG.integers(0, 50_000, 4_000),
        4_096 * RNG.integers(0, 200_000, 4_000),
        np.repeat(RNG.normal(5e7, 4e6, 400).astype(int), 10),
        RNG.normal(0, 4e6, 4_000).cumsum().astype(int),
        1_000_000 * RNG.integers(1, 60, 4_000),
        RNG.exponential(3e6, 4_000).astype(int),
    ],
)
def test_measured_integers_are_features_however_large(values):
    rows = [measured(at=stamp(n), size=int(value)) for n, value in enumerate(values.tolist())]
    assert "size" in noted(rows).features


@pytest.mark.parametrize("name", ["RFID", "rfid", "badge", "Kartennummer", "Seriennummer", "serial", "barcode"])
def test_integers_of_a_card_or_a_part_are_no_measurements(name):
    rows = [measured(**{name: DRAW.randrange(4_000, 5_600)}) for _ in range(900)]
    assert noted(rows).left_out == {name: "names something, or a part of a date"}
