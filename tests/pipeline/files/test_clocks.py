"""Which column has the times of the records: by its name with a unit or a zone, or by what its numbers look like."""

import random

import pytest

from tests.pipeline.files.surveyed import measured, noted, stamp

START = 1_767_588_966
DRAW = random.Random(17)


def irregular(scale, count=600):
    """Return times that are some seconds apart, in parts of a second."""
    time, found = START * scale, []
    for _ in range(count):
        time += int(DRAW.expovariate(1 / 90) * scale) + 2
        found.append(time)
    return found


def taken(rows):
    """Return which column is the time, and the form that is chosen for it."""
    found = noted(rows)
    options = [note.change for note in found.notes if note.change.time]
    return (options[0].time[0], options[0].time_form) if options else (found.time_path, None)


UNITS = {1: "%s", 10**3: None, 10**6: None, 10**9: None}


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        *(("ts_ms", 10**3), ("event_time_ms", 10**3), ("timeMs", 10**3), ("createdAtMs", 10**3), ("unix_ms", 10**3)),
        *(("time_us", 10**6), ("ts.micros", 10**6), ("timestamp_ns", 10**9), ("t_nanos", 10**9), ("time in ms", 10**3)),
        *(("epoch_s", 1), ("t_s", 1), ("ts_sec", 1), ("t_utc", 1), ("time_unix", 10**3), ("Zeitstempel_ms", 10**3)),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_a_time_with_its_unit_in_the_name_is_the_time(name, scale, as_text):
    path = name.replace(".", "\\.")
    times = irregular(scale)
    rows = [measured(**{name: str(time) if as_text else time}) for time in times]
    assert taken(rows) == (path, UNITS[scale])
    assert noted(rows).features == ["load", "heat"]
    # Records that come in any order have their times all the same.
    assert taken(DRAW.sample(rows, len(rows)))[0] == path


@pytest.mark.parametrize("name", ["response_time_ms", "time_us", "start_ms", "t_s", "end_ns"])
@pytest.mark.parametrize("most", [90.0, 9_000_000, 3_000_000_000])
def test_a_duration_is_measured_whatever_its_unit_is(name, most):
    rows = [measured(**{name: round(DRAW.uniform(0, most), 1)}, at=stamp(n)) for n in range(600)]
    assert (taken(rows)[0], name in noted(rows).features) == ("at", True)
    nanoseconds = [measured(time_ns=int(min(max(DRAW.gauss(1.5e9, 1e8), 1.2e9), 1.9e9))) for _ in range(600)]
    assert (taken(nanoseconds)[0], noted(nanoseconds).features[0]) == (None, "time_ns")


@pytest.mark.parametrize("scale", UNITS)
@pytest.mark.parametrize("name", ["x", "T0", "Spalte 1", "stempel", "moment"])
def test_the_only_column_of_plausible_times_that_go_forward_is_the_time_whatever_its_name_is(name, scale):
    times = irregular(scale)
    assert taken([measured(**{name: time}) for time in times]) == (name, UNITS[scale])
    late = [*times]
    for at in range(100, 600, 90):
        late.insert(at - 20, late.pop(at))
    assert taken([measured(**{name: time}) for time in late])[0] == name
    # Another column that is called a time comes first; of two that are not none is known to be it.
    assert taken([measured(**{name: time}, ts=time + scale) for time in times])[0] == "ts"
    assert taken([measured(**{name: time}, other=time + scale) for time in times])[0] is None


def test_times_that_go_forward_for_each_source_are_the_time_too():
    rows = []
    for n in range(900):
        for box in range(6):
            rows.append(measured(box=f"b{box}", x=(START + 60 * n + 7_000 * box) * 1_000 + DRAW.randrange(900)))
    assert taken(rows)[0] == "x"
    apart = sorted(rows, key=lambda row: row["box"])
    assert taken(apart)[0] == "x"
    assert taken(DRAW.sample(rows, len(rows)))[0] is None


@pytest.mark.parametrize(
    "value",
    [
        lambda n: DRAW.randrange(1_200_000_000_000, 1_900_000_000_000),
        lambda n: 1_700_000_000_000 + n,
        lambda n: 1_000_000_000_000 + 40 * n * n,
        lambda n: 2_026_000_000 + 3 * n * n,
        lambda n: 4_006_381_333_931 + 7 * n * n,
        lambda n: 1_700_000_000 - 60 * n * n,
        lambda n: 12_000_000 + 60 * n * n,
        lambda n: 1_700_000_000 + 5_000_000 * n,
    ],
)
def test_ids_counts_and_durations_of_as_many_digits_are_no_time(value):
    rows = [measured(x=value(n)) for n in range(600)]
    assert taken(rows)[0] is None


@pytest.mark.parametrize(
    "name", ["bytes_total", "Zählerstand", "energy_Wh", "seq", "msgId", "Auftragsnummer", "order_no"]
)
def test_what_counts_or_numbers_something_by_its_name_is_no_time(name):
    rows = [measured(**{name: time}) for time in irregular(1)]
    assert taken(rows)[0] is None
