"""Names with running numbers are those of devices where each is about as busy, and what looks like them is not."""

import random

import pytest
from resonance.pipeline.files.numbered import BUSY, FEWEST_NAMES
from resonance.pipeline.files.sources import COMES_AGAIN

from tests.pipeline.files.surveyed import measured, noted, source, stamp

DRAW = random.Random(31)


def events(column, names, records=None, weights=None, draw=None):
    """Return records at any times, a minute and more apart, of names that are drawn."""
    count = records or (COMES_AGAIN + 200) * len(names)
    drawn = [draw(n, count) for n in range(count)] if draw else DRAW.choices(names, weights, k=count)
    return [measured(at=stamp(n), **{column: name}) for n, name in enumerate(drawn)]


CHARGERS = [f"DE*KWH*E{n:03d}" for n in range(1, 13)]


@pytest.mark.parametrize(
    "names",
    [
        CHARGERS,
        [f"W{101 + n}" for n in range(16)],
        [f"LTE-{4700 + n // 3}-{'ABC'[n % 3]}" for n in range(12)],
        [f"R{n:02d}" for n in range(8)],
        [f"pump-{n}" for n in range(1, 7)],
        [f"SRV{n:02d}.fra.example" for n in range(1, 9)],
        [f"{'NS'[n % 2]}-{n:02d}" for n in range(10)],
        [f"T{n // 4:02d}B{n % 4:02d}" for n in range(12)],
    ],
)
@pytest.mark.parametrize("column", ["cp", "Bez", "obj", "Name"])
def test_names_made_alike_with_running_numbers_are_the_key(names, column):
    weights = [1 + 0.1 * (n % 7) for n in range(len(names))]
    rows = events(column, names, weights=weights)
    found = noted(rows)
    (note,) = [note for note in found.notes if note.change.key]
    assert (note.option, note.advised) == (f"--key {column}", True)
    assert f"{len(names)} names with running numbers" in note.text
    # One of them begins late, another one has a slip in its name.
    late = [row for n, row in enumerate(rows) if n > len(rows) / 3 or row[column] != names[2]]
    late[70] = {**late[70], column: "??"}
    assert source(late).paths == (column,) and source(late).certain


@pytest.mark.parametrize(
    "column",
    ["Ladepunkt", "Ladesäule", "charge_point", "Kälteanlage", "Messgeraet", "Werkzeugmaschine", "EVSE", "rack"],
)
def test_what_a_device_is_called_needs_no_running_numbers_nor_equal_counts(column):
    rows = events(column, ["Nord", "Hof 7", "Süd-links", "altes Tor"], weights=[5, 1, 1, 2], records=6_000)
    assert source(rows) == ((column,), "4 names", True)


KINDS = [
    *("error_code", "Fehler", "Charge", "lot_no", "order", "Kunde", "card", "session", "ticket_id", "Artikel", "SKU"),
    *("part_number", "grade", "Klasse", "category", "tariff", "PLZ", "schicht", "product", "recipe", "status", "team"),
    *("handled_by", "errorType", "StatusCode", "case", "Güte", "Bediener", "acquirer"),
]


@pytest.mark.parametrize("column", KINDS)
def test_what_is_numbered_and_no_device_by_its_name_is_no_key(column):
    found = source(events(column, [f"E{n:02d}" for n in range(1, 11)]))
    assert found is None or not found.certain


def decreasing(names):
    return [1 / (1 + n) for n in range(len(names))]


def one_after_another(n, count):
    return f"L{1 + 12 * n // count:03d}"


def in_campaigns(n, count):
    return f"P{1 + n // 40 % 12:02d}"


@pytest.mark.parametrize(
    "rows",
    [
        # Codes and articles, most of which are rare.
        lambda: events("c", names := [f"E{n:02d}" for n in range(1, 13)], weights=decreasing(names), records=9_000),
        # Batches that come one after another, and what a machine makes for a while.
        lambda: events("c", [""] * 12, draw=one_after_another),
        lambda: events("c", [""] * 12, draw=in_campaigns),
        # Numbers of parts and places, which are not running.
        lambda: events("c", [f"P-{DRAW.randrange(10_000, 99_999)}" for _ in range(12)]),
        lambda: events("c", [f"{DRAW.randrange(10_000, 99_999):05d}" for _ in range(12)]),
        lambda: events("c", [f"D-{DRAW.randrange(10_000, 99_999)}" for _ in range(12)]),
        # Classes, and names that are not made alike.
        lambda: events("c", [f"A{n}" for n in range(1, 9)]),
        lambda: events("c", [f"E{n:02d}" for n in range(FEWEST_NAMES - 1)]),
        lambda: events("c", ["Nord", "Süd", "Ost", "West", "Mitte", "E01", "E02"]),
        # Many with few records each.
        lambda: events("c", [f"C{n:04d}" for n in range(60)], records=12_000),
        # Half of them come later.
        lambda: events("c", [""] * 12, draw=lambda n, count: f"K{DRAW.randrange(6) + 6 * (2 * n > count):02d}"),
    ],
)
def test_what_only_looks_like_numbered_devices_is_no_key(rows):
    found = source(rows())
    assert found is None or not found.certain


def test_without_times_names_with_running_numbers_are_offered_alone():
    rows = [
        {key: value for key, value in row.items() if key != "at"}
        for row in events("cp", [f"W{n}" for n in range(101, 117)])
    ]
    found = source(rows)
    assert (found.paths, found.certain) == (("cp",), False)
    (note,) = [note for note in noted(rows).notes if note.change.key]
    assert (note.remedy, note.advised) == ("to learn which of them changed", False)
    assert str(note).endswith("; to learn which of them changed: --key cp")


def test_devices_may_be_unequally_busy_and_kinds_are_more_so():
    names = [f"W{101 + n}" for n in range(8)]
    for most, is_key in ((0.8 * BUSY, True), (2 * BUSY, False)):
        found = source(events("cp", names, weights=[most, *[1] * 7], records=8_000))
        assert (found is not None and found.certain) == is_key
