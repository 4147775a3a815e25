"""What only looks like a number stays text: what no float64 holds, and single ones of the ids of a column."""

import random

import orjson
import pyarrow
import pytest
from pyarrow import parquet
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.examination import examine
from resonance.pipeline.files.rows import Columns

from tests.pipeline.files.written import records, values, written

GIVEN = Settings.of({"input": {"topics": ["a"]}})
DRAW = random.Random(9)
ENDLESS = ["1e999", "-1e400", "80180E3167", "1E309", "2.5e+308", "1e0000400", "99999e304", ".5e310"]
FINITE = ["0E400", "0e100", "1e308", "1.5E+300", "-1e200", "80180E30", "1e0000005", "1e-999", "9e99"]


def names(width, count=400, digits="0123456789ABCDEF"):
    """Return ids of these digits, of which some are digits alone or have a single E among them."""
    found = ["".join(DRAW.choices(digits, k=width)) for _ in range(count)]
    found[50::60] = ["".join(DRAW.choices(digits[1:10], k=width)) for _ in found[50::60]]
    found[7::40] = [f"{'7' * (width - 2)}E{DRAW.randrange(1, 10)}" for _ in found[7::40]]
    found[9::90] = ["8" * (width - 3) + "E99" for _ in found[9::90]]
    return found


def as_file(folder, kind, members):
    """Write columns of texts in a kind of file and return it, with the columns that read numbers in it."""
    rows = [dict(zip(members, row, strict=True)) for row in zip(*members.values(), strict=True)]
    if kind == "parquet":
        parquet.write_table(pyarrow.table(members), folder / "a.parquet")
        return folder / "a.parquet", {"numbers": True}
    if kind.startswith("jsonl"):
        return written(folder, f"a.{kind}", b"".join(orjson.dumps(row) + b"\n" for row in rows)), {"numbers": True}
    lines = "".join(";".join(row.values()) + "\n" for row in rows)
    return written(folder, f"a.{kind}", ";".join(members) + "\n" + lines), {}


KINDS = ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", ENDLESS)
@pytest.mark.parametrize("others", ["1.5", "two", "1,5"])
def test_a_number_that_no_float64_holds_is_text_wherever_it_stands(tmp_path, kind, cell, others):
    for cells in ([cell, others, others], [others, others, cell], [cell, cell, cell]):
        path, how = as_file(tmp_path, kind, {"n": ["1", "2", "3"], "x": cells})
        found = [each["x"] for each in values(path, **how)]
        assert [each for each in found if type(each) is str and each != others] == [cell] * cells.count(cell)
        # With a decimal comma, under other names, and as it is examined.
        assert cell in [each["y"] for each in values(path, members={"y": "x"}, decimal=",", **how)]
        seen = examine([path], Columns(**how), GIVEN, tolerant=True, limit=None).seen
        assert seen.columns["x"].kinds[str] >= cells.count(cell)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", FINITE)
def test_a_long_exponent_is_no_reason_to_be_text(tmp_path, kind, cell):
    path, how = as_file(tmp_path, kind, {"n": ["1", "2", "3"], "x": [cell, "7", cell]})
    assert [each["x"] for each in values(path, **how)] == [float(cell), 7, float(cell)]


def test_in_long_form_it_is_text_as_well(tmp_path):
    lines = [f"2026-01-05T08:{n:02d}:00Z,{tag},{'1e999' if n == 30 else n}\n" for n in range(60) for tag in "ab"]
    found = values(written(tmp_path, "a.csv", "at,tag,value\n" + "".join(lines)), key=("tag",), time=("at",))
    assert [each["value"] for each in found if each["tag"] == "b"] == [*range(30), "1e999", *range(31, 60)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [4, 6, 10, 16])
@pytest.mark.parametrize("digits", ["0123456789ABCDEF", "0123456789abcdef", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"])
def test_a_column_of_ids_is_text_in_all_records(tmp_path, kind, width, digits):
    ids = names(width, digits=digits)
    path, how = as_file(tmp_path, kind, {"id": ids, "x": [str(n) for n in range(400)]})
    assert [(each["id"], each["x"]) for each in values(path, **how)] == [(own, n) for n, own in enumerate(ids)]
    assert [each["own"] for each in values(path, members={"own": "id"}, **how)] == ids
    assert [record.key.decode() for record in records(path, key=("id",), **how)] == ids
    # What means a missing one does so there, too.
    assert values(path, nulls=(ids[7],), **how)[7]["id"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_which_some_look_like_numbers_are_the_ids_of_the_records(tmp_path, kind):
    ids = [*dict.fromkeys(names(10))]
    path, how = as_file(tmp_path, kind, {"id": ids, "x": [f"{n % 7}.5" for n in range(len(ids))]})
    found = examine([path], Columns(**how), GIVEN, tolerant=True, limit=None).suggestion
    assert (found.id_path, found.features) == ("id", ["x"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["n/a", "E05", "off", "ERR1"])
def test_numbers_stay_numbers_where_most_are_replaced_by_a_few_words(tmp_path, kind, word):
    cells = ["12" if n % 5 == 0 else word for n in range(300)]
    path, how = as_file(tmp_path, kind, {"n": [str(n) for n in range(300)], "x": cells})
    assert [each["x"] for each in values(path, **how)] == [12 if n % 5 == 0 else word for n in range(300)]
    path, how = as_file(tmp_path, kind, {"x": [f"{n}kN" for n in range(300)], "y": cells})
    assert [each["x"] for each in values(path, units=("kN",), **how)] == [*range(300)]


def test_a_column_that_two_members_have_is_converted_once(tmp_path):
    path = written(tmp_path, "a.csv", "a,b\nx,1\n")
    assert values(path, members={"p": "a", "q": "a", "r": "b", "s": "b"}) == [{"p": "x", "q": "x", "r": 1, "s": 1}]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_column_of_ids_is_does_not_change_within_a_file(tmp_path, kind):
    ids = [*(f"80B{number}" for number in range(2_200)), *["80E18"] * 2_200]
    path, how = as_file(tmp_path, kind, {"n": list(map(str, range(4_400))), "x": ids})
    assert [each["x"] for each in values(path, **how)] == ids
