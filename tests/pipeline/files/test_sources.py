"""Which columns name what the records are of, alone or together, and which only seem to."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from resonance.pipeline.files.notes import COMPARED, FEWEST_PEERS
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.survey import MAX_SOURCES
from resonance.pipeline.peers import profiles

from tests.pipeline.files.surveyed import DRAW, FOUR, measured, noted, source, stamp


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
    assert str(note).endswith("a model of its own; to compare them all the same, with --set stream=key: --key box")
    assert (FEWEST_PEERS, COMPARED) == (profiles.FEWEST_STREAMS, profiles.FEWEST)


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


def test_what_names_that_come_and_go_are_of_is_the_source():
    def pod(n, box):
        return f"{'ab'[box % 2]}-{box}-{n // 300}"

    rows = [measured(at=stamp(n), pod=pod(n, box), app="ab"[box % 2]) for n in range(2_000) for box in range(6)]
    assert source(rows) == (("app",), "those of pod come and go", True)
    assert source([{**row, "app": "a"} for row in rows]).paths == ("pod",)


def hired(spans, days=28, each_day=60, silent=None):
    """Return the records of cranes, four on each site, which are hired from one day to another."""
    rows = []
    for n in range(days * each_day):
        for crane, (begin, end) in enumerate(spans):
            is_silent = crane == silent and n >= 0.6 * days * each_day
            if begin <= n / each_day < end and not is_silent:
                rows.append(measured(at=stamp(n), crane_id=f"TC-{100 + crane}", site=f"S{crane // 4}"))
    return rows


# A few cranes of each site are there all the time.
HIRED = [(0, 28) if n % 4 == 3 else (n % 9, n % 9 + 9 + n % 5) for n in range(24)]


@pytest.mark.parametrize("silent", [None, 3, 7])
@pytest.mark.parametrize("each_day", [20, 60])
def test_devices_on_hire_are_sources_and_no_site_with_several_of_their_records_at_a_time(each_day, silent):
    rows = hired(HIRED, each_day=each_day, silent=silent)
    assert source(rows) == (("crane_id",), "at comes again, but not with the same one of 24", True)
    assert source(hired([(0, 28)] * 24, each_day=each_day, silent=silent)).paths == ("crane_id",)


@pytest.mark.parametrize("each", [20, 700])
def test_what_has_one_record_at_a_time_is_the_source_of_ids_that_come_and_go_whatever_they_have(each):
    rows = [measured(at=stamp(n), service=f"s{k}", pod_id=f"s{k}-{n // each}") for n in range(2_800) for k in range(5)]
    assert source(rows) == (("service",), "those of pod_id come and go", True)


def test_hosts_that_begin_connections_are_sources_and_a_start_is_a_time():
    rows = [
        measured(start=1.77e9 + n + DRAW.random(), src_ip=f"10.0.0.{DRAW.randrange(8)}", dst_ip=f"10.1.0.{n % 9}")
        for n in range(6_000)
    ]
    assert source(rows)[0] == ("src_ip",) and source(rows).certain
    assert [note.option for note in noted(rows).notes if note.change.time] == ["--time start --time-form %s"]


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


def test_what_stands_for_missing_numbers_does_not_change_the_key():
    rows = [{"box": f"b{n % 2}", "y": n % 2 * 40 + DRAW.gauss(0, 0.1) + n / 200, "at": stamp(n)} for n in range(4_000)]
    found = source(rows)
    assert found == (("box",), "y goes on with each of 2", True)
    assert source([{**row, "y": "Bad Input"} if n % 90 == 7 else row for n, row in enumerate(rows)]) == found


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
