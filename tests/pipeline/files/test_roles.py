"""What a column is for: labels, clocks, counters, rare counts, stand-ins for missing numbers, features."""

from datetime import UTC, datetime

import pytest
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.json_paths import escaped
from resonance.pipeline.timestamps import milliseconds

from tests.pipeline.files.surveyed import DRAW, FOUR, labels, measured, noted, source, stamp


@pytest.mark.parametrize("first", ["since", "clock"])
def test_of_several_times_those_that_go_with_the_records_are_theirs(first):
    rows = [measured(since=stamp(n // 100), born=stamp(DRAW.randrange(9_999)), clock=stamp(n)) for n in range(1_000)]
    assert noted([{first: row[first], **row} for row in rows]).time_path == "clock"


def test_labels_are_no_features_and_offered_as_truth():
    for values in ((0, 1), (0.0, 1.0), (2.0, 0.0), (True, False), ("ok", "bad")):
        rows = [measured(is_anomaly=values[n % 9 == 0]) for n in range(300)]
        found = noted(rows)
        assert (found.features, labels(rows)) == (["load", "heat"], ["is_anomaly"])
        assert found.left_out["is_anomaly"].endswith("labels, for evaluate --truth")
        assert "is_anomaly" not in found.categories
    assert "left out of the features: class (30 values: labels" in str(
        noted([measured(**{"class": n % 30}) for n in range(300)]).findings[-1]
    )


def test_a_single_column_of_0_and_1_is_taken_for_a_label_but_errors_and_several_are_measured():
    rows = [measured(broke=int(n % 50 == 0)) for n in range(300)]
    assert labels(rows) == ["broke"]
    assert labels([measured(is_error=int(n % 50 == 0)) for n in range(300)]) == []
    assert labels([measured(burner_on=int(n % 50 < 20)) for n in range(300)]) == []
    flags = [{**row, "door": n % 2} for n, row in enumerate(rows)]
    assert (labels(flags), noted(flags).features) == ([], ["broke", "load", "heat", "door"])


@pytest.mark.parametrize("name", ["class", "true_class", "anomaly_class", "fault_type", "labels", "target"])
def test_texts_are_labels_where_their_name_says_so(name):
    assert labels([measured(**{name: "abc"[n % 3]}) for n in range(300)]) == [name]
    assert labels([measured(truth={"class": "abc"[n % 3]}) for n in range(300)]) == ["truth.class"]


@pytest.mark.parametrize("name", ["vehicle_class", "service class", "asset.class", "sales-target", "vehicle_type"])
@pytest.mark.parametrize("kinds", ["ab", "abcd"])
def test_a_class_of_what_a_record_is_about_is_a_category_and_no_label(name, kinds):
    outer, _, inner = name.rpartition(".")
    own = [DRAW.choice(kinds) for _ in range(600)]
    rows = [measured(**({outer: {inner: each}} if outer else {name: each})) for each in own]
    found = noted(rows)
    assert (labels(rows), found.left_out, found.categories) == ([], {}, {name: sorted(kinds)})
    assert str(found.findings[-1]).endswith("so a change in it is not seen; prepare.categories takes it)")


@pytest.mark.parametrize(
    "name", ["passengers", "Lifts", "open_tickets", "n_doors", "num_of_axles", "bedCount", "Anzahl"]
)
@pytest.mark.parametrize("first", [0, 1])
def test_how_many_there_are_is_a_feature_however_few_there_may_be(name, first):
    for most in (3, 4, 6):
        assert name in noted([measured(**{name: DRAW.randrange(first, most + 1)}) for _ in range(900)]).features


@pytest.mark.parametrize(
    ("name", "values"), [("passengers", (2, 7, 40)), ("mode", (1, 2, 3)), ("gas", (1, 2, 3)), ("axis", (0, 1, 2)),
                         ("modes", (1, 2, 3)), ("status_codes", (1, 2, 3)), ("class_bits", (0, 1, 2))]
)  # fmt: skip
def test_other_few_integers_may_name_kinds(name, values):
    assert name in noted([measured(**{name: DRAW.choice(values)}) for _ in range(900)]).left_out


def test_counts_of_failures_are_measured_and_a_shift_names_something():
    rows = [measured(auth_failures=max(n % 97 - 93, 0), shift=1 + n // 8 % 2) for n in range(2_000)]
    assert (labels(rows), noted(rows).features) == ([], ["auth_failures", "load", "heat"])


def test_rare_counts_are_features_and_what_never_varies_is_none():
    rows = [measured(http_5xx=n % 400 // 398, pump=0.0, mode=7 if n % 300 else 8) for n in range(2_000)]
    found = noted([{**row, "http_4xx": int(n % 500 == 3)} for n, row in enumerate(rows)])
    assert found.features == ["http_5xx", "load", "heat", "http_4xx"]
    assert set(found.left_out) == {"pump", "mode"}


@pytest.mark.parametrize("begin", [0, 12_345, -4_000])
def test_what_only_grows_is_a_clock_or_a_meter(begin):
    rows = [measured(ticks=begin + 60 * n, meter=begin + n // 3 + 0.5) for n in range(900)]
    assert noted(rows).left_out == {
        "ticks": "counts the records, in even steps",
        "meter": "never becomes less: a clock or a meter",
    }


def test_what_counts_the_records_of_each_source_is_left_out():
    mixed, counts = [], [0] * 4
    for _ in range(4_000):
        box = DRAW.randrange(4)
        counts[box] += 1
        mixed.append(measured(machine=f"m{box}", cycle=counts[box]))
    apart = [measured(machine=f"m{box}", cycle=n) for box in range(4) for n in range(1_000)]
    for rows in (mixed, apart):
        assert noted(rows).left_out == {"cycle": "counts up or down for each machine: a clock, a meter or a tank"}
    assert "load" in noted(mixed).features
    unit = [measured(unit=unit, cycle=n) for unit in range(1, 31) for n in range(200 + unit)]
    assert noted(unit).left_out == {
        "unit": "names what the records are of",
        "cycle": "counts up or down for each unit: a clock, a meter or a tank",
    }


def test_a_smooth_reading_of_many_devices_is_a_feature_and_their_meter_is_none():
    # Of a hundred devices the first records are of twenty minutes each.
    rows = [
        measured(at=stamp(n), device=f"d{k}", room=round(24 - n % 600 / 40 - k / 50, 2), kwh=round(90.0 * k + n / 7, 2))
        for n in range(160)
        for k in range(100)
    ]
    found = noted(rows, Columns(key=("device",)))
    assert (found.features, [*found.left_out]) == (["room", "load", "heat"], ["kwh"])


def test_a_counter_that_wraps_or_restarts_is_no_feature():
    octets = [measured(octets=n * 997 % 300_000) for n in range(3_000)]
    assert noted(octets).left_out == {"octets": "grows, and begins again 9 times: a clock or a meter"}
    sent = [measured(machine=f"m{n % 4}", sent=(n + 90 * (n % 4)) * 997 % 300_000 + n % 4) for n in range(4_000)]
    assert noted(sent).left_out == {"sent": "counts up or down for each machine: a clock, a meter or a tank"}


def test_a_flag_names_nothing():
    rows = [measured(at=stamp(n), pump=n // 7 % 2, valve=n % 2) for n in range(2_000)]
    assert (source(rows), noted(rows).features) == (None, ["pump", "valve", "load", "heat"])


NAMING = ["port", "Source Port", "id.orig_p", "flight_number", "zip", "Hour", "DAY_OF_WEEK", "Bureau code"]


@pytest.mark.parametrize("name", NAMING)
def test_integers_that_name_something_are_no_amounts(name):
    rows = [measured(**{name: DRAW.randrange(900), f"{name}s_per_hour": DRAW.randrange(900)}) for n in range(300)]
    assert noted(rows).left_out == {escaped(name): "names something, or a part of a date"}


def test_integers_of_which_some_begin_with_a_zero_name_something_too():
    rows = [measured(place=f"0{n}" if n % 20 == 0 else 1_000 + DRAW.randrange(900)) for n in range(300)]
    assert noted(rows).left_out == {"place": "names something, or a part of a date"}


def test_what_most_records_lack_is_no_feature_and_flags_of_true_and_false_may_be():
    rows = [measured(gas=n if n % 9 == 0 else None, door=n % 3 == 0) for n in range(300)]
    assert noted(rows).left_out == {"gas": "missing in 266 of 300 records"}
    assert noted(rows).categories == {"door": ["false", "true"]}


def test_texts_among_integers_count_nothing():
    rows = [{**row, "errors": "N/A" if n % 400 == 0 else DRAW.randrange(90)} for n, row in enumerate(FOUR)]
    assert "errors" in noted(rows).features
    assert "errors" in noted(rows, Columns(key=("box",))).features


@pytest.mark.parametrize("text", ["-999", "-200", "9999", "-1", "100000"])
def test_a_number_far_beyond_all_others_that_comes_again_may_stand_for_a_missing_one(text):
    rows = [measured(gas=float(text) if n % 11 == 0 else DRAW.uniform(2, 90)) for n in range(400)]
    (note,) = noted(rows).notes
    assert (note.option, note.advised) == (f"--null {text}", True)
    assert note.text.startswith(f"{text} stands far beyond all other numbers of gas, in up to 37 of 400 records")


def test_a_single_outlier_and_a_category_are_no_stand_ins():
    rows = [measured(gas=9999 if n == 7 else DRAW.uniform(2, 90), port=(53, 80, 6667)[n % 3]) for n in range(400)]
    assert not noted(rows).notes


def test_times_that_go_back_are_noted_unless_sources_explain_them():
    rows = [measured(at=stamp(n if n % 100 else max(n - 90, 0))) for n in range(1_000)]
    assert (
        "at goes back in 9 of 1,000 records; alerts and drift follow" in [str(note) for note in noted(rows).notes][-1]
    )
    assert not [note for note in noted(FOUR).notes if "goes back" in note.text]
    mixed = [str(note) for note in noted(DRAW.sample(FOUR, len(FOUR))).notes]
    assert mixed[-1].endswith("follow the order of the file: sort it")


@pytest.mark.parametrize(
    ("days", "hour", "option"),
    [
        ("{:02d}/01/2026", "{:02d}:00:00", "--time Date --time Hour --time-form '%d/%m/%Y %H:%M:%S'"),
        ("{:02d}.01.2026", "{:02d}.30", "--time Date --time Hour --time-form '%d.%m.%Y %H.%M'"),
        # A day with dots and a short year is no time of the day.
        ("{:02d}.01.26", "{:02d}:30", "--time Date --time Hour --time-form '%d.%m.%y %H:%M'"),
        ("{:02d}.01.26", "{:02d}.45.30", "--time Date --time Hour --time-form '%d.%m.%y %H.%M.%S'"),
        ("2026-01-{:02d}", "{:02d}:00", "--time Date --time Hour"),
    ],
)
def test_a_date_and_a_time_of_day_are_joined(days, hour, option):
    rows = [measured(Date=days.format(1 + n // 24), Hour=hour.format(n % 24)) for n in range(24 * 20)]
    assert [note.option for note in noted(rows).notes if note.change.time] == [option]


@pytest.mark.parametrize("name", ["Reject", "scrap", "cache_hit", "order_cancelled"])
def test_what_happens_to_records_is_measured_and_no_label(name):
    rows = [measured(at=stamp(n), machine=f"m{n % 4}", **{name: int(DRAW.random() < 0.02)}) for n in range(2_000)]
    assert name in noted(rows).features


def test_dates_come_before_times_of_the_day_though_these_differ_more_often():
    # Two shifts of a machine that rests by night, with the month first.
    rows = [
        measured(Date=f"02/{1 + n // 192:02d}/2026", Time=f"{6 + n % 192 // 12:02d}:{n % 12 * 5:02d}:00")
        for n in range(192 * 14)
    ]
    [option] = [note.option for note in noted(rows).notes if note.change.time]
    assert option == "--time Date --time Time --time-form '%m/%d/%Y %H:%M:%S'"


@pytest.mark.parametrize(
    ("name", "value", "form"),
    [
        ("ts", lambda n: 1_700_000_000 + n, "%s"),
        ("ts", lambda n: f"{1_700_000_000 + n}", "%s"),
        ("ts", lambda n: (1_700_000_000 + n) * 10**6, None),
        ("ts", lambda n: (1_700_000_000 + n) * 10**3 if n % 2 else f"2023-11-14 22:{n // 60:02d}:{n % 60:02d}", None),
        ("ts", lambda n: f"{(1_700_000_000 + n) * 10**9}", None),
        ("Tag", lambda n: f"{1 + n // 30:02d}.11.2023", "%d.%m.%Y"),
        ("date", lambda n: 20231114 + n // 100, "%Y%m%d"),
        ("at", lambda n: f"11/{14 + n // 100}/2023 {n % 12 + 1}:00:00 PM", "%m/%d/%Y %I:%M:%S %p"),
        ("time", lambda n: f"14/Nov/2023:22:{n // 60:02d}:{n % 60:02d} +0000", "%d/%b/%Y:%H:%M:%S %z"),
    ],
)
def test_clocks_in_other_forms_are_offered_with_theirs(name, value, form):
    rows = [measured(**{name: value(n)}) for n in range(300)]
    (note,) = [note for note in noted(rows).notes if note.change.time]
    assert (note.change.time, note.change.time_form, note.advised) == ((name,), form, True)
    assert datetime.fromtimestamp(milliseconds(value(299), form) / 1000, UTC).strftime("%Y-%m") == "2023-11"
    assert noted(rows).features == ["load", "heat"]


def test_a_date_that_has_two_readings_is_offered_with_both():
    rows = [measured(Date="5/2/2007", Hour=f"{n % 24:02d}:00:00") for n in range(200)]
    (note,) = noted(rows).notes
    assert note.text.endswith("--time-form '%d/%m/%Y %H:%M:%S' or '%m/%d/%Y %H:%M:%S'")


def test_what_counts_rarely_for_each_source_is_left_out():
    rows = []
    for n in range(6_000):
        k = n % 6
        counted = {"errors": k + n // (500 + 400 * k), "setting": 2 + n // 3_000, "queue": DRAW.randrange(7)}
        rows.append(measured(at=stamp(n // 6), charger=f"c{k}", **counted))
    assert noted(rows).left_out == {"errors": "counts up or down for each charger: a clock, a meter or a tank"}


def test_what_counts_for_each_source_is_left_out_whatever_the_key_is():
    rows = [
        measured(at=stamp(n), oven=f"o{n % 5}", program=DRAW.choice("abc"), batch=1_000 * (n % 5) + n // 5)
        for n in range(4_500)
    ]
    counted = {"batch": "counts up or down for each oven: a clock, a meter or a tank"}
    assert noted(rows).left_out == noted(rows, Columns(key=("program",))).left_out == counted


@pytest.mark.parametrize("name", ["SW Version", "fw", "os.release", "FirmwareVersion", "app_version_no"])
@pytest.mark.parametrize("versions", [(8.4, 8.5), (7, 8), ("8.4", "8.10"), ("8.4.1", "8.5.0")])
def test_versions_are_no_numbers(name, versions):
    rows = [measured(**{name: versions[n > 900 + n % 50]}) for n in range(2_000)]
    found = noted(rows)
    assert found.features == ["load", "heat"]
    path = escaped(name)
    assert found.left_out.get(path, "") == ("" if isinstance(versions[0], str) else "names a version")
    assert (path in found.texts) == isinstance(versions[0], str)
    assert not [note for note in found.notes if "number as text" in note.text]


def test_what_only_sounds_like_a_version_is_a_feature():
    rows = [measured(heat_release=DRAW.gauss(4, 1), conversion=n % 7 / 2, fever=n % 5 / 2) for n in range(900)]
    assert noted(rows).features == ["heat_release", "conversion", "fever", "load", "heat"]


@pytest.mark.parametrize("name", ["bin", "card_bin", "zip", "plz", "ean", "code", "number", "zipCode", "accountNumber"])
def test_integers_that_number_many_things_are_no_measurements(name):
    rows = [measured(**{name: DRAW.randrange(400_000, 560_000)}) for _ in range(900)]
    assert noted(rows).left_out == {name: "names something, or a part of a date"}
    assert name in noted([{**row, name: row[name] / 7} for row in rows]).features


@pytest.mark.parametrize("name", ["lactation", "bin_level", "cabin", "numbers", "encode", "zip_speed", "NO", "bins"])
def test_integers_that_only_sound_like_it_are_measured(name):
    assert name in noted([measured(**{name: DRAW.randrange(90)}) for _ in range(900)]).features


@pytest.mark.parametrize("name", ["bin", "code", "number"])
def test_a_few_integers_of_such_a_name_may_be_an_amount(name):
    assert name in noted([measured(**{name: n % 6 + 1}) for n in range(900)]).features
