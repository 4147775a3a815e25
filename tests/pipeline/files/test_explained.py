"""Names that say what numbers are like: who does what irregular records are of, and what machines make."""

import random
import re

import pytest
from resonance.pipeline.files.explained import FEWEST, MOST_NAMES
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.sources import COMES_AGAIN
from resonance.pipeline.files.suggest import suggest

from tests.pipeline.files.surveyed import source, surveyed

START = 1_777_852_800_000
DRAW = random.Random(11)


def transactions(name, count=8, apart=12.0, records=6_000):
    """Return records at any times, of names drawn at random, whose amounts differ by a part of their spread."""
    time, rows = START, []
    for _ in range(records):
        time += int(DRAW.expovariate(1 / 20_000)) + 1
        k = DRAW.choices(range(count), [3, *[1] * (count - 1)])[0]
        amount = DRAW.gauss(100 + apart * k, 30)
        rows.append({"event_time": time, name: f"x{k}", "amount": round(amount, 2), "risk": DRAW.random()})
    return rows


@pytest.mark.parametrize(
    "name", ["acquirer", "merchant", "branch", "Filiale", "payment.provider", "region", "tenant_key"]
)
def test_who_does_what_irregular_records_are_of_is_their_source_where_numbers_differ(name):
    reason = "8 names through the whole file, between which {}amount differs"
    rows = transactions(name.rpartition(".")[2])
    if "." in name:
        rows = [{"event_time": row["event_time"], "payment": row} for row in rows]
    assert source(rows) == ((name,), reason.format("payment." * ("." in name)), True)
    (note,) = [note for note in suggest(surveyed(rows)).notes if note.change.key]
    assert (note.advised, note.remedy, note.option) == (True, "a model for each", f"--key {name}")


@pytest.mark.parametrize(
    "name",
    ["currency", "method", "payment_method", "recipe", "mode", "status", "card_type", "country", "result", "Sorte"],
)
def test_what_says_of_which_kind_records_are_is_no_source_though_numbers_differ(name):
    assert source(transactions(name)) is None


def test_a_column_of_any_name_between_whose_values_numbers_differ_is_offered_and_not_advised():
    rows = transactions("handled_by")
    assert source(rows) == (("handled_by",), "8 names through the whole file, between which amount differs", False)
    (note,) = [note for note in suggest(surveyed(rows)).notes if note.change.key]
    assert (note.advised, note.option) == (False, "--key handled_by")
    assert source(transactions("handled_by", apart=0)) is None
    many = source(transactions("handled_by", MOST_NAMES + 1, records=(MOST_NAMES + 2) * COMES_AGAIN))
    assert many.reason == "21 names that come again"


def test_a_name_alone_is_offered_and_not_advised():
    assert source(transactions("acquirer", apart=0)) == (("acquirer",), "8 names through the whole file", False)


def test_names_that_do_not_go_through_the_whole_file_are_no_sources():
    rows = [{**row, "branch": f"x{n // 600 + DRAW.randrange(2)}"} for n, row in enumerate(transactions("branch"))]
    assert source(rows) is None
    # One of eight may be silent at the end.
    rows = [row for n, row in enumerate(transactions("branch")) if n < 4_000 or row["branch"] != "x1"]
    assert source(rows).certain


def made(name="recipe", records=9_600, of_machine=20.0, levels=(180, 210, 225, 240), stays=60):
    """Return records of four machines, each of which makes the same for a while: its heat is as that needs it."""
    making, rows = [0] * 4, []
    for n in range(records):
        k = n % 4
        if n // 4 % stays == 0:
            making[k] = DRAW.randrange(len(levels))
        heat = levels[making[k]] + of_machine * k + DRAW.gauss(0, 2)
        rows.append({
            "at": START + n // 4 * 60_000, "oven": f"O{k}", name: f"r{making[k]}",
            "heat": round(heat, 2), "damp": DRAW.gauss(40, 3), "total": 500_000 * k + n // 4,
        })  # fmt: skip
    return rows


@pytest.mark.parametrize("name", ["recipe", "Product", "program_name", "grade", "Sorte", "material.no"])
def test_what_a_machine_makes_is_a_part_of_the_key_where_it_explains_most_of_a_number(name):
    rows = made(name.replace(".", "_"))
    path = name.replace(".", "_")
    found = source(rows)
    assert found.paths == ("oven", path) and found.certain
    assert re.match(f"{path} explains 9[0-9] % of heat in each oven; at comes again", found.reason)
    assert found.reason.endswith(f"; --key oven alone has one model of each oven, whatever its {path} is")
    suggestion = suggest(surveyed(rows))
    assert suggestion.left_out["total"] == "counts up or down for each oven: a clock, a meter or a tank"
    (note,) = [note for note in suggestion.notes if note.change.key]
    assert (note.advised, note.option) == (True, f"--key oven --key {path}")


@pytest.mark.parametrize("name", ["state", "mode", "Status", "shift", "alarm_level", "FW", "remark"])
def test_what_a_machine_is_in_or_runs_with_is_no_part_of_its_key(name):
    assert source(made(name)).paths == ("oven",)


def test_what_is_made_is_no_part_of_the_key_where_it_explains_little_or_is_new_or_has_few_records():
    assert source(made(levels=(200, 200.5, 201))).paths == ("oven",)
    late = [{**row, "recipe": f"r{n > 5_000}", "heat": row["damp"] + 50 * (n > 5_000)} for n, row in enumerate(made())]
    assert source(late).paths == ("oven",)
    few = made(records=4 * 4 * COMES_AGAIN - 400, stays=20)
    assert source(few).paths == ("oven",)
    own = [{**row, "recipe": f"r{row['oven']}"} for row in made()]
    assert source(own).paths == ("oven",), "each oven has its own"


def test_texts_that_are_left_out_and_explain_most_of_a_feature_are_noted():
    rows = [{key: row[key] for key in ("at", "recipe", "heat", "damp")} for row in made() if row["oven"] == "O1"]
    text = "recipe explains 9. % of heat, so another one of it is a change of these; to compare each with itself alone"
    (note,) = [note for note in suggest(surveyed(rows)).notes if "explains" in note.text]
    assert re.fullmatch(f"{text}: --key recipe", note.text)
    (note,) = [note for note in suggest(surveyed(made()), Columns(key=("oven",))).notes if "explains" in note.text]
    assert re.fullmatch(f"{text}: --key oven --key recipe", note.text)
    assert not [note for note in suggest(surveyed(made()[: FEWEST - 1])).notes if "explains" in note.text]
