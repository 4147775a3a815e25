"""Streams whose keys have several parts: each is compared with those that measure the same."""

import numpy as np
import pytest
from resonance.pipeline.peers import comparison
from resonance.pipeline.peers.parts import compare_within, groups_of

SENSORS = {"temperature": (34.0, 1.1), "latency": (7.0, 1.0), "load": (400.0, 90.0)}


def long_form(devices=8, order="{}.{}", records=200, seed=0, **unlike):
    """One stream for each sensor of each device; `unlike` are devices, by the sensor that is 12 deviations higher."""
    rng = np.random.default_rng(seed)
    names, rows, stream = [], [], []
    for sensor, (mean, spread) in SENSORS.items():
        for device in range(devices):
            stream += [len(names)] * records
            names.append("p0:" + order.format(sensor, f"d{device}"))
            off = 12.0 * spread * (unlike.get(sensor) == device)
            rows.append(mean + off + 0.5 * spread * rng.normal() + spread * rng.normal(size=(records, 1)))
    return names, np.concatenate(rows), np.array(stream)


def compared(names, rows, stream):
    return compare_within(names, rows, stream, 60_000 * np.arange(len(rows)))


@pytest.mark.parametrize("order", ["{}.{}", "site.{}.{}", "{1}.{0}"])
def test_a_sensor_is_compared_with_those_of_its_kind_wherever_the_key_names_it(order):
    names, rows, stream = long_form(12, order, latency=5)
    found = compared(names, rows, stream)
    assert [(names[each.stream], each.change) for each in found.unlike] == [
        ("p0:" + order.format("latency", "d5"), "high")
    ]
    assert found.streams == 36
    # Beside all sensors nothing is unlike the others.
    assert comparison.compare(rows, stream, 36).unlike == []


def test_the_farthest_stream_of_all_sensors_comes_first():
    names, rows, stream = long_form(12, latency=5, temperature=2, load=9)
    found = compared(names, rows, stream).unlike
    assert {names[each.stream] for each in found} == {"p0:latency.d5", "p0:temperature.d2", "p0:load.d9"}
    assert [each.far for each in found] == sorted((each.far for each in found), reverse=True)


def test_a_kind_of_work_has_its_record_among_those_of_all_sensors():
    names, rows, stream = long_form(12)
    rng = np.random.default_rng(3)
    work = rng.integers(2, size=len(rows)).astype(float)
    both = np.column_stack([rows[:, 0] * (1.0 + 3.0 * work), work + 9.0 * (stream // 12)])
    at = (stream == names.index("p0:temperature.d4")) & (work == 0.0)
    both[at, 0] += 12.0
    found = [each for each in compared(names, both, stream).unlike if each.where]
    assert [names[each.stream] for each in found] == ["p0:temperature.d4"]
    assert stream[found[0].row] == found[0].stream


@pytest.mark.parametrize("name", ["d{}", "site{}.d{}", "10.0.{}.{}"])
def test_a_fleet_whose_names_say_nothing_of_its_values_is_one(name):
    rng = np.random.default_rng(1)
    names = ["p0:" + name.format(number % 3, number) for number in range(30)]
    stream = np.repeat(np.arange(30), 60)
    rows = rng.normal(size=(1_800, 2)) + rng.normal(size=(30, 2))[stream]
    assert groups_of(names, rows, stream) == [list(range(30))]


def test_what_is_equal_everywhere_says_nothing_of_parts():
    names = [f"p0:site{number % 15:02}.pump{number}" for number in range(45)]
    names.sort()
    stream = np.repeat(np.arange(45), 60)
    rows = np.zeros((2_700, 2))
    rows[:, 1] = np.nan
    rows[stream == 7] = 5.0
    assert groups_of(names, rows, stream) == [list(range(45))]
    assert [each.stream for each in compared(names, rows, stream).unlike] == [7]


def test_streams_with_few_of_their_kind_are_compared_with_all():
    rng = np.random.default_rng(0)
    names = [f"p0:{site}.m{number}" for site, count in (("a", 6), ("b", 4), ("c", 4)) for number in range(count)]
    stream = np.repeat(np.arange(14), 100)
    level = np.array([0.0] * 6 + [30.0] * 4 + [60.0] * 4)
    level[8] = 3_000.0
    rows = level[stream][:, None] + rng.normal(size=(1_400, 1))
    assert [len(each) for each in groups_of(names, rows, stream)] == [6, 4, 4]
    found = compared(names, rows, stream)
    assert ([names[each.stream] for each in found.unlike], found.streams) == (["p0:b.m2"], 14)


def test_streams_without_values_and_sensors_of_few_devices():
    names, rows, stream = long_form(6)
    rows[stream == 3] = np.nan
    assert [len(each) for each in groups_of(names, rows, stream)] == [6, 6, 6]
    names, rows, stream = long_form(4)
    # There would be no peers at all.
    assert groups_of(names, rows, stream) == [list(range(12))]
