"""Which state a machine is in is no part of the key, though it explains its numbers; what it makes is one."""

import random

import pytest
from resonance.pipeline.files.phases import FEWEST_CHANGES, is_phase
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.suggest import suggest

from tests.pipeline.files.surveyed import noted, source, surveyed
from tests.pipeline.files.test_explained import START, made

DRAW = random.Random(13)
TREATING = (("Standby", 40), ("Dialyse", 50), ("Spülen", 8))
STEPS = (("fill", 10), ("wash", 30), ("drain", 20), ("spin", 20))


def machines(steps=TREATING, name="program", records=12_000, count=8, level=100):
    """Return records of machines that go through the same steps again and again, each for about as many records."""
    at, left, rows = [DRAW.randrange(len(steps)) for _ in range(count)], [0] * count, []
    for n in range(records):
        k = n % count
        if not left[k]:
            at[k] = (at[k] + 1) % len(steps)
            left[k] = max(1, round(steps[at[k]][1] * DRAW.uniform(0.7, 1.3)))
        left[k] -= 1
        rows.append({
            "at": START + n // count * 60_000, "machine": f"M{k}", name: steps[at[k]][0],
            "flow": round(level * at[k] + k + DRAW.gauss(0, 2), 2), "damp": DRAW.gauss(40, 3),
        })  # fmt: skip
    return rows


@pytest.mark.parametrize("steps", [TREATING, STEPS, TREATING[:2], (("idle", 30), ("W60", 40)), STEPS[:3]])
@pytest.mark.parametrize("name", ["program", "Programm", "program_no", "ProgrammeName"])
def test_states_that_follow_each_other_in_time_are_no_part_of_the_key(steps, name):
    rows = machines(steps, name)
    found = source(rows)
    assert (found.paths, found.certain) == (("machine",), True)
    assert f"; {name}, which explains " in found.reason
    assert found.reason.endswith(", is taken as the state of each machine, with one model for all states")
    (note,) = [note for note in noted(rows).notes if note.change.key]
    assert (note.option, note.advised) == ("--key machine", True)
    taken = suggest(surveyed(rows), Columns(key=("machine",)))
    assert not [note for note in taken.notes if "explains" in note.text]
    assert taken.texts == [name]


@pytest.mark.parametrize("levels", [(180, 210), (180, 210, 240), (180, 210, 225, 240)])
def test_what_a_machine_makes_in_any_order_stays_a_part_of_the_key(levels):
    assert source(made("program", levels=levels)).paths == ("oven", "program")


def test_so_it_does_where_nothing_is_made_between_two_of_them():
    rows = [
        {**row, "program": "idle", "heat": 40 + row["damp"] / 40} if n // 4 % 60 > 45 else row
        for n, row in enumerate(made("program", records=14_400))
    ]
    assert source(rows).paths == ("oven", "program")


@pytest.mark.parametrize("name", ["recipe", "grade", "Sorte"])
def test_products_that_are_made_in_turn_stay_a_part_of_the_key(name):
    rows = machines((("A60", 40), ("A70", 50), ("B56", 40)), name)
    assert source(rows).paths == ("machine", name)
    assert source(machines((("A60", 40), ("off", 50)), name)).paths == ("machine",)


def test_several_columns_at_the_same_times_are_the_key_together_though_each_name_follows_another():
    rows = []
    for n in range(1_500):
        for room in range(3):
            for k, metric in enumerate(("flow", "heat", "damp")):
                value = round((1, 20, 45)[k] + room + DRAW.gauss(0, 0.1), 2)
                rows.append({"at": START + n * 60_000, "room": f"R{room}", "metric": metric, "value": value})
    assert source(rows).paths == ("metric", "room")


def test_what_is_made_is_no_part_of_the_key_where_a_third_has_too_few_records():
    rows = [
        {**row, "recipe": "r0", "heat": row["heat"] % 20 + 180} if row["recipe"] == "r1" and n % 1_200 > 200 else row
        for n, row in enumerate(made(records=12_000, levels=(180, 240, 210)))
    ]
    assert source(rows).paths == ("oven",)
    (note,) = [note for note in suggest(surveyed(rows), Columns(key=("oven",))).notes if "explains" in note.text]
    assert note.text.endswith("; too few records of each oven and recipe for a model of its own")


def test_a_few_changes_say_nothing():
    rows = machines(STEPS, count=1, records=80 * FEWEST_CHANGES // 4 - 200)
    assert not is_phase(surveyed(rows), "program", ["machine"])
    assert is_phase(surveyed(machines(STEPS, count=1, records=8_000)), "program", ["machine"])
