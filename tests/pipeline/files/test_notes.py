"""What stands in the way of using a column is named, with the option that helps."""

from datetime import datetime, timedelta

import numpy as np
import orjson
import pytest
from resonance.pipeline.files import notes
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.suggest import suggest
from resonance.pipeline.files.survey import FileSurvey
from resonance.pipeline.peers import profiles


def surveyed(rows, columns=Columns()):  # noqa: B008 - nothing changes it
    return suggest(FileSurvey(rows), columns).notes


def column(values):
    return [{"x": value, "y": n / 3} for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "option", "said"),
    [
        ([*range(20), "N/A"], "--null N/A", "x is no number in 1 of 21 records, such as 'N/A': these would be dead"),
        ([1, 2, "N/A", "-"] * 5, "--null - --null N/A", "in 10 of 20 records"),
        (["1.5", "-2"] * 9, "--numbers", "a number as text"),
        (["1,5", "-2"] * 9, "--decimal , --numbers", "with a decimal comma"),
        (["1,500", 999, "$2,000.50"] * 9, "--numbers", "with a unit or thousands"),
        (["1 500", "22 000 500.5", "0.5"] * 9, "--numbers", "with a unit or thousands"),
        (["1 500,25", "22 000 500", "0,5 %"] * 9, "--decimal , --numbers", "with a decimal comma"),
        (["7,5 %", "12,25 %"] * 9, "--decimal , --numbers", "with a decimal comma"),
    ],
)
def test_texts_that_mean_numbers_are_named(values, option, said):
    (note,) = surveyed(column(values))
    assert note.option == option
    assert said in note.text
    assert str(note).endswith(option)


@pytest.mark.parametrize(
    ("values", "said", "options"),
    [
        (["15 kg", "1.5 kg"] * 9, ["'15 kg', a number with a unit (kg)"], ["--unit kg"]),
        (["15 kg", "1,5 kg"] * 9, ["a number with a unit (kg)"], ["--unit kg --decimal ,"]),
        ([*range(40), "0.48kg", "480 g"], ["'0.48kg', a number with a unit (g, kg): write"], [""]),
        ([*range(40), "<0.5", "5-10"], ["'<0.5': these would be dead letters"], [""]),
        ([*range(40), "> 3", "N/A"], ["as 'N/A': these would be", "as '> 3': these would be"], ["--null N/A", ""]),
        ([*range(40), "N/A", "5 kg"], ["as '5 kg', a number with a unit (kg)", "as 'N/A'"], ["", "--null N/A"]),
    ],
)
def test_texts_with_a_value_are_not_read_as_missing(values, said, options):
    found = surveyed(column(values))
    assert [note.option for note in found] == options
    assert all(text in note.text for note, text in zip(found, said, strict=True))


def test_texts_that_mean_no_number_are_not_named():
    assert not surveyed(column(["red", "green", "12 Main St", "3M"] * 9))
    assert not surveyed([{"day": day, "y": n} for n, day in enumerate(["Mon", "Tue"] * 9)])


def test_columns_with_the_same_texts_share_a_note():
    rows = [{name: "N/A" if n == place else n for place, name in enumerate("abcde")} for n in range(30)]
    (note,) = surveyed(rows)
    assert note.text.startswith("a, b, c and 2 more are no numbers in up to 5 of 30 records")


def test_what_is_no_number_is_named_of_features_alone():
    rows = [
        {"x": n % 90 / 7, "y": n % 80 / 3, "code": n % 3, "site": 7, "lot": "N/A" if n % 2 else 5} for n in range(300)
    ]
    for row in rows[::20]:
        row.update(x="N/A", code="N/A", site="N/A")
    found = suggest(FileSurvey(rows))
    assert found.features == ["x", "y"]
    texts = [str(note) for note in found.findings]
    assert texts == [
        "x is no number in 15 of 300 records, such as 'N/A': these would be dead letters; read as missing: --null N/A",
        "left out of the features: code (3 different integers, which may name kinds), site (7 in all records), "
        "lot (5 in all records)",
    ]
    assert [note.dead_letters for note in found.notes] == [15]
    # Beside an array no number is a feature.
    assert surveyed([{"x": row["x"], "values": [1.0, 2.0]} for row in rows]) == []


@pytest.mark.parametrize(
    ("times", "option", "said"),
    [
        (["2026-01-05T08:00:00Z"], "", "at is taken as input.time_path"),
        (["2026-01-05T08:00:00Z", "2026-01-05 08:00:00"], "--time at", "has times that input.time_path cannot read"),
        (
            ["05.01.2026 08:00", "25.01.2026 08:00"],
            "--time at --time-form '%d.%m.%Y %H:%M'",
            "has times that input.time_path cannot read",
        ),
        (
            ["31/01/2026 08:00:10"],
            "--time at --time-form '%d/%m/%Y %H:%M:%S'",
            "has times that input.time_path cannot read",
        ),
        (["01/02/2026 08:00"], "", "--time at --time-form '%d/%m/%Y %H:%M' or '%m/%d/%Y %H:%M'"),
        ([1767600000], "--time at --time-form %s", "has times that input.time_path cannot read"),
        (["noon at 12"], "", "--time at --time-form FORM"),
    ],
)
def test_times_are_offered_with_the_form_in_which_they_are_read(tmp_path, times, option, said):
    rows = [{"at": time, "x": n} for n, time in enumerate(times)]
    (note,) = surveyed(rows)
    assert note.option == option
    assert said in str(note)
    if option:
        assert not surveyed(rows, note.change)
        path = tmp_path / "a.jsonl"
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        with RecordFile(path, note.change) as file:
            years = [record.timestamp / 86_400_000 / 365.25 + 1970 for batch in file.batches() for record in batch]
        assert all(2026 <= year < 2026.1 for year in years)


@pytest.mark.parametrize("form", ["%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"])
@pytest.mark.parametrize(
    ("times", "is_clear"),
    [
        ([datetime(2026, 3, 1) + n * timedelta(hours=1) for n in range(200)], True),
        # Two devices, the second one behind the first.
        ([datetime(2026, 3, 1) + n % 200 * timedelta(hours=1) for n in range(400)], True),
        ([datetime(2026, 3, 10) - n * timedelta(hours=1) for n in range(200)], True),
        # Neither the first records nor the last ones see another day.
        ([datetime(2026, 3, 1, 12) + n * timedelta(seconds=9) for n in range(9_000)], True),
        ([datetime(2026 + n // 12, 1 + n % 12, 1) for n in range(36)], True),
        ([datetime(2026, 1 + n, 1) for n in range(12)], False),
        ([datetime(2026, 3, 1 + n * 7 % 12, 1 + n % 5) for n in range(200)], False),
    ],
)
def test_days_and_months_are_known_apart_by_the_order_of_the_records(times, is_clear, form):
    rows = [{"at": time.strftime(form), "x": n * 7 % 90 / 7} for n, time in enumerate(times)]
    seen = FileSurvey(rows[:5_000])
    seen.add(rows[5_000:])
    (note,) = [note for note in suggest(seen).notes if "--time-form" in str(note)]
    assert note.change.time_form == (form if is_clear else None)
    assert all(each in str(note) for each in ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"))


def test_a_zone_that_is_missing_late_counts_too():
    rows = [{"t": f"2026-01-05T08:{n % 60:02}:00{'' if n == 900 else 'Z'}", "x": n} for n in range(1_000)]
    found = suggest(FileSurvey(rows))
    assert found.time_path is None
    assert found.notes[0].advised


def test_texts_among_times_are_named():
    rows = [{"t": "N/A" if n == 3 else "2026-01-05T08:00:00Z", "x": n} for n in range(20)]
    assert [note.option for note in surveyed(rows)] == ["--null N/A", ""]


def test_names_that_come_again_are_offered_as_key():
    rows = [{"device": f"dev-{n % 20}", "x": n * 7 % 90} for n in range(10_000)]
    (note,) = surveyed(rows)
    assert (note.option, note.advised) == ("--key device", False)
    assert note.text == "device names what the records are of (20 names)"
    assert not surveyed(rows[:9_900])
    assert not surveyed(rows, Columns(key=("device",)))


def test_an_id_that_some_records_lack_is_named():
    rows = [{"parcel_id": None if n == 7 else f"p-{n}", "x": n / 3} for n in range(200)]
    (note,) = surveyed(rows)
    assert str(note) == (
        "parcel_id is missing in 1 of 200 records, so it is not taken as their id: "
        "--set input.id_path=parcel_id does so"
    )
    assert not surveyed([{**row, "id": n} for n, row in enumerate(rows)])


def test_what_is_missing_in_many_records_in_a_row_says_since_when():
    gaps = {*range(90, 100), *range(640, 760)}
    rows = [
        {"at": f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z", "x": None if n in gaps or n % 50 == 0 else n % 7 / 3,
         "y": None if n % 20 == 0 else n % 9 / 4} for n in range(1_400)
    ]  # fmt: skip
    found = FileSurvey()
    for start in range(0, len(rows), 70):
        found.add(rows[start : start + 70])
    said = "missing: x in 155 (120 in a row from 2026-01-01T10:40:00Z on), y in 70 of 1,400 records"
    assert suggest(found).missing == said
    # Where some records lack the path it is not known which record is the first.
    found.add([{"at": row["at"]} for row in rows[:70]])
    assert "in a row from" not in suggest(found).missing


def test_degrees_that_begin_again_at_360_are_left_out_by_their_name_or_their_steps():
    noise = np.random.default_rng(0)
    turning = (7 * noise.normal(0, 1, 400).cumsum() % 360).tolist()
    anywhere = noise.uniform(0, 360, 400).tolist()
    rows = [{"a": a, "b": b, "wind_dir": b, "tilt_deg": b / 4} for a, b in zip(turning, anywhere, strict=True)]
    found = suggest(FileSurvey(rows))
    assert (found.features, [*found.left_out], found.notes) == (["b", "tilt_deg"], ["a", "wind_dir"], [])
    (note,) = suggest(FileSurvey(rows), chosen=["a", "b", "wind_dir"]).notes
    assert note.text.startswith("a and wind_dir are directions in degrees, it seems") and not note.remedy


def test_what_is_said_to_be_compared_is():
    assert (notes.FEWEST_PEERS, notes.COMPARED) == (profiles.FEWEST_STREAMS, profiles.FEWEST)
