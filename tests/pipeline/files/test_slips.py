"""A few records that came twice, late, or never change nothing of what the columns are; and none goes unsaid."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from resonance.pipeline.files.kinds import Kinds
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.sources import source_of
from resonance.pipeline.files.suggest import OF_THE_KEY, suggest
from resonance.pipeline.files.survey import FileSurvey

BATCH = 2_000
SHARE = 0.002


def stamp(minute, form="%Y-%m-%dT%H:%M:%SZ"):
    return (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minute)).strftime(form)


def surveyed(rows):
    seen = FileSurvey()
    for start in range(0, len(rows), BATCH):
        seen.add(rows[start : start + BATCH])
    return seen


def at_once(draw):
    """Ten belts that are read at the same times, with their jams, in a form of times with the month first."""
    counted = [1_200_000] * 10
    for n in range(1_200):
        for belt in range(10):
            bags = draw.randrange(40)
            counted[belt] += bags
            yield {
                "LogTime": stamp(5 * n, "%m/%d/%Y %I:%M:%S %p"),
                "Belt": f"T2-B{belt}",
                "State": draw.choices(["RUN", "IDLE", "JAM"], [8, 3, 1])[0],
                "Bags": bags,
                "BagsTotal": counted[belt],
                "Amp": draw.gauss(6, 1),
                "Jams": draw.choices(range(4), [900, 60, 8, 1])[0],
                "Remark": "cleaned" if draw.random() < 0.1 else None,
                "Nothing": None,
            }


def trials(draw):
    """Forty trials one behind the other, each with its own clock."""
    for trial in range(40):
        for n in range(300):
            yield {"trial": f"x{trial}", "at": stamp(n), "cycle": n, "load": draw.gauss(0, 1), "heat": draw.random()}


def versions(draw):
    """A machine whose versions follow each other, the clock of which counts on in seconds with fractions."""
    for n in range(9_000):
        yield {
            "at": stamp(n),
            "machine_fw": f"4.{n // 1_500}.0",
            "uptime": 77.5 + 0.5 * n,
            "tick": 10 * n,
            "load": draw.gauss(0, 1),
            "heat": draw.random(),
            "readings": [1, 2],
            "received": stamp(n + 1),
        }


def long_form(draw):
    """Stations and what they measure, with the unit of each and how good it is."""
    units = {"TA": "degC", "RH": "%", "P": "hPa", "FF": "m/s"}
    for n in range(600):
        for station in (10147, 10224, 10469, 10738):
            for level, (parameter, unit) in enumerate(units.items()):
                yield {
                    "obs_time": stamp(20 * n),
                    "station_id": station,
                    "parameter": parameter,
                    "value": round(100 * level + draw.gauss(0, 5), 1),
                    "unit": unit,
                    "qc_flag": draw.choices([0, 1, 2], [97, 2, 1])[0],
                }


def in_turn(draw):
    """Racks that are read one after the other, each at a time of its own."""
    energy = [12_000.0 + 400 * rack for rack in range(8)]
    for n in range(1_500):
        for rack in range(8):
            energy[rack] += 0.5 + draw.random()
            yield {
                "ts": f"{stamp(5 * n)[:-1]}.{rack * 51 + n % 7:03d}Z",
                "rack": {"id": f"R{rack:02d}", "row": "AB"[rack // 4], "site": "FRA3"},
                "kwh": round(energy[rack], 1),
                "inlet": draw.gauss(22, 1),
                "door": draw.random() < 0.004,
                "serial": f"{rack}-{n:05d}",
            }


def few_machines(draw):
    """Four machines one behind the other."""
    for machine in range(4):
        for n in range(2_000):
            yield {"box": f"b{machine}", "at": stamp(n), "cycle": n, "load": draw.gauss(0, 1), "heat": draw.random()}


def sites(draw):
    """Machines that only together with their site have a name."""
    for n in range(1_200):
        for site in "ns":
            for machine in range(3):
                own = {"site": site, "place": f"m{machine}", "mode": draw.choice("xyz")}
                yield {"at": stamp(n), **own, "load": draw.gauss(0, 1)}


def counters(draw):
    """One machine, with counters that wrap or rest and a tank."""
    for n in range(6_000):
        counted = {"octets": n * 997 % 300_000, "hours": n // 3 / 10, "errors": n // 1_000}
        yield {"at": stamp(n), **counted, "tank": 80 - n % 700 / 10, "load": draw.gauss(0, 1), "heat": draw.random()}


def errors(draw):
    """Chargers that count few errors, the first of them soon."""
    for n in range(1_500):
        for k in range(6):
            own = {"charger": f"c{k}", "errors": k + n // (125 + 100 * k), "queue": draw.randrange(7)}
            yield {"at": stamp(n), **own, "load": draw.random()}


FILES = [at_once, trials, versions, long_form, in_turn, few_machines, sites, counters, errors]
PATHS = {
    at_once: ("Belt",),
    trials: ("trial",),
    versions: None,
    long_form: ("parameter", "station_id"),
    in_turn: ("rack.id",),
    few_machines: ("box",),
    sites: ("site", "place"),
    counters: None,
    errors: ("charger",),
}


def twice(rows, draw):
    return [row for row in rows for _ in range(1 + (draw.random() < SHARE))]


def sent_again(rows, draw):
    found = list(rows)
    for at in sorted(draw.sample(range(len(rows) - 200), int(SHARE * len(rows))), reverse=True):
        found.insert(at + 2 + draw.randrange(60), rows[at])
    return found


def late(rows, draw):
    found = list(rows)
    for at in draw.sample(range(len(rows) - 200), int(SHARE * len(rows))):
        found.insert(at + 1 + draw.randrange(12), found.pop(at))
    return found


def lost(rows, draw):
    return [row for row in rows if draw.random() > SHARE]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("slip", [twice, sent_again, late, lost])
def test_a_few_records_that_slipped_change_no_key_clock_or_counter(file, slip):
    rows = list(file(random.Random(5)))
    found = []
    for own in (rows, slip(rows, random.Random(3))):
        seen = surveyed(own)
        kinds = Kinds(seen)
        source = source_of(seen, kinds)
        taken = suggest(seen, Columns())
        key = source and (source.paths, source.certain)
        found.append((key, kinds.clocks, kinds.labels, taken.features, {*taken.left_out}, taken.time_path))
    assert found[0] == found[1]
    assert found[0][0] == (PATHS[file] and (PATHS[file], True))


@pytest.mark.parametrize("share", [0, 0.002, 0.1])
@pytest.mark.parametrize(
    "count", [lambda draw: draw.choices(range(4), [900, 60, 8, 1])[0], lambda draw: draw.randrange(9)]
)
def test_a_count_is_no_part_of_a_key_though_no_two_records_of_a_time_are_alike_in_the_first_ones(share, count):
    draw, rows = random.Random(4), []
    for n, row in enumerate(at_once(draw)):
        rows += [{**row, "Jams": count(draw)}] * (1 + (n > BATCH and draw.random() < share))
    seen = surveyed(rows)
    assert source_of(seen, Kinds(seen)).paths == ("Belt",)
    assert "Jams" in suggest(seen, Columns()).features


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("takes", [False, True])
def test_each_column_has_exactly_one_line_of_what_is_said(file, takes):
    seen = surveyed(list(file(random.Random(8))))
    found = suggest(seen, Columns())
    key = next((note.change.key for note in found.notes if note.change.key), ())
    time = next((note.change.time for note in found.notes if note.change.time), ())
    if takes:
        found = suggest(seen, Columns(key=key, time=time))
    clock = () if found.time_path is None else (found.time_path,)
    lines = [
        found.features,
        list(key),
        list(time or clock),
        [found.id_path] if found.id_path else [],
        found.texts,
        list(found.flags),
        [path for path, reason in found.left_out.items() if reason != OF_THE_KEY],
        list(found.unused),
    ]
    named = [path for line in lines for path in line]
    assert sorted(named) == sorted(seen.columns)
    printed = " ".join(map(str, found.findings))
    for path in (*found.texts, *found.unused, *lines[6]):
        assert f"{path} (" in printed or f"{path}, " in printed


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (lambda n: {"vector": [n, 1.5], "n": n}, "not used: n (a number beside vector)"),
        (lambda n: {"words": {f"w{n % 50}": 1}, "n": n}, "not used: n (a number beside words)"),
        (lambda n: {"x": n % 9 / 7, "n": n if n < 9 else f"w{n % 9}"}, "not used: n (neither texts nor numbers alone)"),
        (lambda n: {"x": n % 9 / 7, "n": None}, "not used: n (no value in any record)"),
        (lambda n: {"x": n % 9 / 7, "n": [n]}, "not used: n (lists)"),
        (lambda n: {"x": n % 9 / 7, "n": f"a {n}", "id": n}, "not used: n (another text in each record)"),
        (lambda n: {"x": n % 9 / 7, "n_id": n % 60}, "not used: n_id (an id by its name)"),
        (
            lambda n: {"at": f"2026-01-01T00:0{n // 60}:{n % 60:02}Z", "x": n % 9 / 7, "version": f"9.18.2{3 + n % 2}"},
            "not used: version (names a version)",
        ),
    ],
)
def test_what_is_used_for_nothing_is_said_with_the_reason(own, said):
    found = suggest(surveyed([own(n) for n in range(300)]), Columns())
    assert [note.text for note in found.findings if note.text.startswith("not used")] == [said]
