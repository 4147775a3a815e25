"""The purpose of the watch for changes, as far as it is quick: it finds them soon and names them, and nothing else."""

import pytest

from bench.drift import costs, findings, fleet, real
from bench.drift.detectors import alarms


@pytest.mark.parametrize("kind", ["abrupt2", "onefeature", "new", "incremental", "share"])
def test_a_change_is_found_within_its_bar_where_it_is_and_none_before(kind):
    line = findings.of_changes(kind, 4, 6, 3, "watch", "modal")
    assert line.misses == ()
    assert line.delay is not None and line.delay <= findings.limit(kind)


@pytest.mark.parametrize("kind", ["gauss", "t3", "duplicates"])
def test_nothing_is_found_where_nothing_changes(kind):
    line = findings.of_unchanging(kind, 4, 6, 20_000, 1, "watch", "modal", False)
    assert (line.false, line.records) == (0, 20_000)


def test_the_watch_is_behind_another_engine_as_well():
    assert findings.of_changes("abrupt4", 2, 4, 1, "watch", "caea").misses == ()


def test_adwin_finds_what_moves_altogether():
    pytest.importorskip("river", reason="`make bench` installs River")
    stream = findings.changed("all", 2, 4, 0, 2000, 1000)
    found = alarms(stream.X, "adwin", "modal")
    assert any(1000 <= alarm.record < 2000 and alarm.feature is not None for alarm in found)


def test_the_state_is_no_larger_than_it_may_be():
    bytes_of = {row.case: row.value for row in costs.costs(costs.STRIDE * 4) if row.unit == "bytes"}
    assert bytes_of["d=8 cells=8: state"] < 39_000
    assert bytes_of["d=246 cells=32: state"] < costs.MOST_BYTES


def test_a_fleet_of_stationary_streams_has_no_alert():
    whole, silent = fleet.fleet(20_000, 10)
    assert (whole.value, whole.reference_value, silent.value) == (0.0, 1.0, 0.0)


def test_permuted_features_of_real_data_are_found_and_nothing_before():
    found = real.of_real("wdbc", "permuted", False, 1, "watch", "modal")
    assert found is not None and (found.precision, found.recall, found.f1) == (1.0, 1.0, 1.0)
    assert found.delay < 0.1
    assert real.of_real("none", "permuted", False, 1, "watch", "modal") is None


def test_an_alarm_is_right_within_two_thousand_records_and_wrong_elsewhere():
    found = [[real.Alarm(record) for record in own] for own in ([100, 6_500, 6_600], [8_500], [])]
    assert real.score(found) == (1 / 3, 1 / 3, 1 / 3, (0.25 + 1 + 1) / 3)
