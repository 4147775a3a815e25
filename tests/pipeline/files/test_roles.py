"""What a column is for: names of sources, labels, clocks, counters, rare counts, stand-ins for missing numbers."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from resonance.pipeline.files.kinds import Kinds
from resonance.pipeline.files.notes import COMPARED, FEWEST_PEERS
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.sources import source_of
from resonance.pipeline.files.suggest import suggest
from resonance.pipeline.files.survey import MAX_SOURCES, FileSurvey
from resonance.pipeline.json_paths import escaped
from resonance.pipeline.peers import profiles
from resonance.pipeline.timestamps import milliseconds

DRAW = random.Random(7)


def stamp(minute):
    return f"2026-01-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00Z"


def measured(**members):
    return {**members, "load": DRAW.random(), "heat": DRAW.gauss(40, 3)}


def surveyed(rows):
    """Survey rows in uneven batches, as a file gives them."""
    seen = FileSurvey()
    for start in range(0, len(rows), 700):
        seen.add(rows[start : start + 700])
    return seen


def source(rows):
    seen = surveyed(rows)
    return source_of(seen, Kinds(seen))


def noted(rows, columns=None):
    return suggest(surveyed(rows), columns or Columns())


def labels(rows):
    return Kinds(surveyed(rows)).labels


FOUR = [measured(box=f"b{n % 4}", at=stamp(n // 4)) for n in range(4_000)]


def test_names_whose_times_come_again_are_those_of_sources():
    assert source(FOUR) == (("box",), "at comes again, but not with the same one of 4", True)
    (note,) = [note for note in noted(FOUR).notes if note.change.key]
    assert note.text == "box names what the records are of (at comes again, but not with the same one of 4)"
    assert (note.option, note.advised) == ("--key box", True)
    assert not [note for note in noted(FOUR, Columns(key=("box",))).notes if note.change.key]


@pytest.mark.parametrize(
    ("years", "found"), [(30, (("firm",), "year begins again with another one of 40", True)), (9, None)]
)
def test_of_a_panel_the_firm_is_the_source_and_never_the_year(years, found):
    rows = [measured(firm=7 * firm, year=1990 + year) for firm in range(40) for year in range(years)]
    assert source(rows) == found
    assert {"firm", "year"} <= noted(rows).left_out.keys()


def test_names_of_parts_of_a_file_whose_times_begin_again_are_those_of_sources():
    rows = [measured(trial=trial, at=stamp(n)) for trial in range(30) for n in range(500 + trial)]
    assert source(rows) == (("trial",), "at begins again with another one of 30", True)
    assert noted(rows).left_out["trial"] == "names what the records are of"
    assert noted(rows).features == ["load", "heat"]


def test_of_sites_and_their_machines_the_machines_are_the_sources():
    rows = [measured(site=f"s{n % 6 // 3}", box=f"b{n % 6}", at=stamp(n // 6)) for n in range(6_000)]
    assert source(rows).paths == ("box",)


def test_dates_and_times_of_the_day_prove_together_whose_the_records_are():
    days = [measured(day=stamp(n // 3)[:10], of_day=stamp(n // 3)[11:16], box=f"b{n % 3}") for n in range(6_000)]
    assert source(days) == (("box",), "day with of_day comes again, but not with the same one of 3", True)


def test_the_id_of_a_device_is_found_within_an_object():
    rows = [measured(device={"site": f"s{n % 8 // 4}", "id": f"gw-{n % 8}"}, at=stamp(n)) for n in range(8_000)]
    assert source(rows).paths == ("device.id",)


def test_two_columns_that_only_together_name_the_sources_are_the_key_together():
    rows = [measured(mode=DRAW.choice("xyz"), site=f"s{n % 6 // 3}", box=n % 3, at=stamp(n // 6)) for n in range(6_000)]
    found = noted(rows)
    assert str(found.notes[-1]) == (
        "site and box together name what the records are of (at comes again, but not with the same two); a model for "
        "each: --key site --key box"
    )
    assert (found.features, found.left_out["box"]) == (["load", "heat"], "names what the records are of")
    assert source([{**row, "box": DRAW.randrange(3)} for row in rows]) != source(rows)


SITES = [{"site": site, "device": unit} for site in "ns" for unit in ("p1", "p2")]


@pytest.mark.parametrize(
    ("order", "anew", "reason"),
    [
        (lambda n: SITES[n % 4], 6_000, "4 together, 2 alone"),
        (lambda n: SITES[(0, 1, 0, 1, 0, 1, 2 + n // 7 % 2)[n % 7]], 6_000, "4 together, 2 alone"),
        (lambda n: SITES[n // 3_000 * 2 + n % 2], 3_000, "4 together, 2 alone"),
        (lambda n: SITES[n // 1_500], 1_500, "at begins again 3 times, with another two"),
    ],
)
def test_names_that_come_again_at_other_sites_are_the_key_together_though_no_time_comes_again(order, anew, reason):
    rows = [measured(**order(n), at=stamp(n % anew)) for n in range(6_000)]
    assert source(rows) == (("device", "site"), reason, True)
    (note,) = [note for note in noted(rows).notes if note.change.key]
    assert (note.option, note.advised) == ("--key device --key site", True)
    drawn = [{**row, "device": DRAW.choice(("p1", "p2")), "at": stamp(n)} for n, row in enumerate(rows)]
    # A unit, say, that is drawn is of no name, nor is a site that is over when the next one begins.
    assert source(drawn).paths == (("site",) if anew == 6_000 else ("device",))
    assert source([{**row, "device": row["site"] + row["device"]} for row in rows]).paths == ("device",)


@pytest.mark.parametrize(("count", "is_key"), [(4, False), (2, True)])
def test_loads_that_are_never_the_same_at_one_time_name_no_sources(count, is_key):
    """Integers that come in turn may: each of them at each time."""
    rng = np.random.default_rng(3)
    loads = [int(each) for _ in range(1_500) for each in rng.choice(count, 2, replace=False) + 1]
    found = source([{"at": stamp(n // 2), "load": load, "heat": rng.normal()} for n, load in enumerate(loads)])
    assert bool(found and found[2]) == is_key


def test_who_works_at_a_machine_for_a_while_is_no_part_of_its_name():
    rows = [measured(machine=f"m{n % 8}", user=f"u{n // 2_000}", at=stamp(n)) for n in range(8_000)]
    assert source(rows) == (("machine",), "8 names", True)


def test_keys_of_two_columns_are_counted_in_all_records():
    rows = [measured(site=n // 2_000, device=n // 100 % 20, at=stamp(n % 100)) for n in range(40_000)]
    assert (
        noted(rows)
        .notes[-1]
        .text.endswith("begins again 399 times, with another two), too few of each for a model of its own")
    )


@pytest.mark.parametrize("first", ["since", "clock"])
def test_of_several_times_those_that_go_with_the_records_are_theirs(first):
    rows = [measured(since=stamp(n // 100), born=stamp(DRAW.randrange(9_999)), clock=stamp(n)) for n in range(1_000)]
    assert noted([{first: row[first], **row} for row in rows]).time_path == "clock"


@pytest.mark.parametrize(("name", "certain"), [("machine_id", True), ("host", True), ("lot", False), ("variety", None)])
def test_a_name_or_equal_counts_beside_times_say_so_too(name, certain):
    clock = {} if certain is None else {"at": None}
    rows = [measured(**{name: f"n{n % 3}"}, **{each: stamp(n) for each in clock}) for n in range(3_000)]
    found = source(rows)
    assert (found and found.certain) == certain
    if certain is False:
        assert found.reason == "each of 3 names has 1,000 records"
    for drawn in (
        [f"n{DRAW.randrange(3)}" for _ in rows],
        [each[name] if n % 4 else None for n, each in enumerate(rows)],
    ):
        others = [{**row, name: each} for row, each in zip(rows, drawn, strict=True)]
        assert (source(others) is None) == (certain is not True or None in drawn)


def test_few_records_of_a_source_are_no_reason_for_a_model_of_its_own():
    (note,) = [note for note in noted(FOUR[:1_999]).notes if "box" in note.text]
    assert (note.option, note.text[-41:]) == ("", "), too few of each for a model of its own")
    assert source([measured(machine=f"m{n % (MAX_SOURCES + 1)}") for n in range(2_000)]) is None
    many = [measured(box=f"b{n % 12}", at=stamp(n // 12)) for n in range(4_000)]
    (note,) = [note for note in noted(many).notes if "box" in note.text]
    assert not note.advised
    assert str(note).endswith("a model of its own; with --set stream=key they are compared: --key box")
    assert (FEWEST_PEERS, COMPARED) == (profiles.FEWEST_STREAMS, profiles.FEWEST)


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


def trucks():
    """Return where trucks are, how far they went and what is in their tanks, at times of their own."""
    rows, noise = [], np.random.default_rng(4)
    spans = noise.choice([10, 20, 30], (300, 15)).cumsum(axis=0)
    steps = noise.uniform(0, 0.01, (300, 15)) * (noise.random((300, 15)) < 0.6)
    gone, begin = steps.cumsum(axis=0), noise.uniform(0, 100, 15)
    for at, box in sorted((int(spans[n, box]) + box, box) for n in range(300) for box in range(15)):
        n = int(np.searchsorted(spans[:, box], at - box))
        far = float(gone[n, box])
        place = {"lat": 40 + 5 * box + abs(far % 0.2 - 0.1), "lon": 7 + box - abs(far % 0.2 - 0.1)}
        own = {"name": f"{'QXZ'[box % 3]} {box}", "odometer": round(float(begin[box]) + 100 * far, 1)}
        own["tank"] = round(80 - 20 * far % 40, 1)
        rows.append(measured(time=1_770_000_000_000 + 1000 * at, trip=f"{box}-{n // 60}", **place, **own))
    return rows


def test_what_goes_on_from_the_last_record_of_each_name_is_of_sources():
    rows = trucks()
    assert source(rows) == (("name",), "lat goes on with each of 15", True)
    # What stays for hours goes on with any name.
    hours = [measured(at=stamp(n), days=1 + DRAW.randrange(90), hour=n // 240) for n in range(6_000)]
    assert source(hours) is None or not source(hours).certain
    level = [{"time": row["time"], "kind": f"k {n % 7}", "y": n % 7 + row["load"]} for n, row in enumerate(rows)]
    assert source(level) is None or not source(level).certain
    left_out = noted(rows, Columns(key=("name",))).left_out
    assert left_out["lat"] == left_out["lon"] == "where it is"
    counts = "counts up or down for each name: a clock, a meter or a tank"
    assert left_out["odometer"] == left_out["tank"] == counts
    assert noted(rows, Columns(key=("name",))).features == ["load", "heat"]


def test_an_id_that_comes_again_names_sources_but_for_one_of_a_kind_and_trips_between_stations_are_none():
    rows = [measured(at=stamp(n), charger_id=100 + DRAW.randrange(9), type_id=DRAW.randrange(5)) for n in range(6_000)]
    assert source(rows)[::2] == (("charger_id",), True)
    assert source([{**row, "charger_id": n} for n, row in enumerate(rows)]) is None
    trips = [
        measured(at=stamp(n), start_station=f"S{DRAW.randrange(9)}", end_station=f"S{DRAW.randrange(9)}x")
        for n in range(6_000)
    ]
    assert source(trips)[0] == ("start_station",)
    many = [
        measured(at=stamp(n), start_station=f"S{DRAW.randrange(47)}", end_station=f"S{DRAW.randrange(46)}")
        for n in range(30_000)
    ]
    assert source(many).paths == ("start_station",)


def test_a_smooth_reading_of_many_devices_is_a_feature_and_their_meter_is_none():
    # Of a hundred devices the first records are of twenty minutes each.
    rows = [
        measured(at=stamp(n), device=f"d{k}", room=round(24 - n % 600 / 40 - k / 50, 2), kwh=round(90.0 * k + n / 7, 2))
        for n in range(160)
        for k in range(100)
    ]
    found = noted(rows, Columns(key=("device",)))
    assert (found.features, [*found.left_out]) == (["room", "load", "heat"], ["kwh"])


def test_what_names_that_come_and_go_are_of_is_the_source():
    def pod(n, box):
        return f"{'ab'[box % 2]}-{box}-{n // 300}"

    rows = [measured(at=stamp(n), pod=pod(n, box), app="ab"[box % 2]) for n in range(2_000) for box in range(6)]
    assert source(rows) == (("app",), "those of pod come and go", True)
    assert source([{**row, "app": "a"} for row in rows]).paths == ("pod",)


def test_hosts_that_begin_connections_are_sources_and_a_start_is_a_time():
    rows = [
        measured(start=1.77e9 + n + DRAW.random(), src_ip=f"10.0.0.{DRAW.randrange(8)}", dst_ip=f"10.1.0.{n % 9}")
        for n in range(6_000)
    ]
    assert source(rows)[0] == ("src_ip",) and source(rows).certain
    assert [note.option for note in noted(rows).notes if note.change.time] == ["--time start --time-form %s"]


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


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M:%S"])
@pytest.mark.parametrize("late", [0, 90])
@pytest.mark.parametrize("each", [1_500, 700, 60])
def test_what_follows_one_another_in_time_names_no_sources(form, late, each):
    rows = []
    for n in range(3_000):
        at = datetime(2026, 1, 3, tzinfo=UTC) + timedelta(seconds=60 * n + DRAW.randint(0, late))
        own = {"at": at.strftime(form), "machine_fw": f"4.{n // each}.0", "total": n % each * 7}
        rows.append(measured(**own))
    assert source(rows) is None
    assert "total" in noted(rows).left_out
    # Of sources one behind the other the times begin again, and a counter with them.
    apart = [{**row, "at": stamp(n % each)} for n, row in enumerate(rows)]
    assert source(apart) == (("machine_fw",), f"at begins again with another one of {-(-3_000 // each)}", True)


def test_a_counter_that_begins_again_once_proves_no_sources():
    rows = [measured(version=f"1.{n // 1_100}.0", total=n % 1_100 * 3 + n % 2) for n in range(1_800)]
    assert source(rows) is None
    assert noted(rows).left_out == {"total": "grows, and begins again once: a clock or a meter"}
    unit = [{**row, "unit": row["version"]} for row in rows]
    assert source(unit) == (("unit",), "total begins again with another one of 2", True)


@pytest.mark.parametrize("tag", ["TagName", "signal"])
@pytest.mark.parametrize("bad", [None, "Bad Input"])
def test_the_names_of_a_table_in_long_form_are_the_key(tag, bad):
    rows = []
    for n in range(3_000):
        # Both are read within some seconds of each other.
        for k in DRAW.sample(range(2), 2):
            value = bad if bad and DRAW.random() < 0.01 else DRAW.gauss(120, 6)
            rows.append({tag: f"FI10{k}", "Value": value, "at": stamp(n)[:-3] + f"{k}{DRAW.randrange(10)}Z", "q": 192})
    assert source(rows) == ((tag,), "each of 2 has its own numbers", True)
    # Beside another number a signal may be that of anything.
    drawn = [{**row, "load": DRAW.random(), tag: DRAW.choice("ab")} for row in rows]
    assert source(drawn) is None


def test_the_names_of_a_table_in_long_form_are_the_key_together_with_what_they_are_of():
    rows = []
    for n in range(4_500):
        k, at = n % 3, f"{stamp(n // 3)[:-1]}.{DRAW.randrange(900)}Z"
        rows.append({"at": at, "metric": f"m{k}", "pod": f"p{n // 3 % 3}", "value": 9**k * DRAW.random()})
    found = source(rows)
    assert (found.paths, found.certain) == (("metric", "pod"), True)
    assert source([{**row, "pod": f"p-{row['metric']}"} for row in rows]).paths == ("pod",)


def test_the_numbers_of_machines_in_long_form_are_told_apart_though_each_metric_goes_on_by_itself():
    rows, levels = [], {"temp": -20.0, "power": 11.0, "door": 40.0}
    for n in range(1_500):
        for k in range(3):
            for metric, level in levels.items():
                value = level * (1 + 0.01 * k) + DRAW.gauss(0, 0.01)
                rows.append({"at": stamp(n), "unit": f"CS-{k}", "metric": metric, "value": round(value, 3)})
    assert source(rows).paths == ("metric", "unit")


def test_states_are_no_sources():
    # A level goes on from one record with the valve open to the next one.
    rows = []
    for n in range(4_000):
        is_open = n // 40 % 2 == 0
        level = 40 + 30 * is_open + (n % 40) * (0.2 if is_open else -0.2) + DRAW.gauss(0, 0.05)
        rows.append(measured(at=stamp(n), valve=("open", "shut")[is_open], level=level))
    assert source(rows) is None
    assert source([{**row, "valve": {"open": "left", "shut": "right"}[row["valve"]]} for row in rows]).paths == (
        "valve",
    )


def test_who_works_at_a_machine_is_not_what_the_records_are_of():
    rows = []
    for n in range(6_000):
        till = DRAW.randrange(6)
        who = {"shop": f"S{till // 2}", "terminal": f"T{till}", "staff_id": f"s{till // 2 * 9 + DRAW.randrange(9)}"}
        rows.append(measured(at=stamp(n), **who))
    assert source(rows) == (("terminal",), "6 names", True)


def test_what_counts_rarely_for_each_source_is_left_out():
    rows = []
    for n in range(6_000):
        k = n % 6
        counted = {"errors": k + n // (500 + 400 * k), "setting": 2 + n // 3_000, "queue": DRAW.randrange(7)}
        rows.append(measured(at=stamp(n // 6), charger=f"c{k}", **counted))
    assert noted(rows).left_out == {"errors": "counts up or down for each charger: a clock, a meter or a tank"}


def test_what_stands_for_missing_numbers_does_not_change_the_key():
    rows = [{"box": f"b{n % 2}", "y": n % 2 * 40 + DRAW.gauss(0, 0.1) + n / 200, "at": stamp(n)} for n in range(4_000)]
    found = source(rows)
    assert found == (("box",), "y goes on with each of 2", True)
    assert source([{**row, "y": "Bad Input"} if n % 90 == 7 else row for n, row in enumerate(rows)]) == found


def test_what_counts_for_each_source_is_left_out_whatever_the_key_is():
    rows = [
        measured(at=stamp(n), oven=f"o{n % 5}", program=DRAW.choice("abc"), batch=1_000 * (n % 5) + n // 5)
        for n in range(4_500)
    ]
    counted = {"batch": "counts up or down for each oven: a clock, a meter or a tank"}
    assert noted(rows).left_out == noted(rows, Columns(key=("program",))).left_out == counted


@pytest.mark.parametrize("name", ["vessel", "imo", None])
def test_a_measure_in_whole_numbers_is_no_source(name):
    # Engines are at a load of their own for a while, and hours of each of its values are those of one.
    rows, noise = [], np.random.default_rng(3)
    load = [np.repeat(noise.uniform(60, 90, 10), 400) + noise.standard_t(2.5, 4_000) for _ in range(6)]
    for n, k in enumerate(noise.integers(0, 6, 24_000).tolist()):
        own = {} if name is None else {name: f"V{k}" if name == "vessel" else 9_300_000 + 1_111 * k}
        level = round(100 + 3 * float(load[k][n // 6]))
        rows.append(measured(at=stamp(n), **own, cylinder=level, hours=2_000 * k + n // 30 / 10))
    found = source(rows)
    assert (found and found.paths) == (name and (name,))


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
