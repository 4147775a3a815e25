"""Features that are missing far more often than they were open an alert; those that are missing now and then do not."""

import numpy as np
import pytest
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.pipeline.task.alerts import missing_features
from resonance.pipeline.task.alerts.missing_features import MissingFeatures

EVIDENCE = 17.2


def drawn(rng, *parts):
    """Which of two features are missing, the second never, in parts with so many records and such a share."""
    first = np.concatenate([rng.random(count) < share for count, share in parts])
    return np.column_stack((first, np.zeros_like(first)))


def found(watch, is_missing, cuts=(10**9,)):
    """Give records to a watch in turns of some sizes; return what opened and cleared, by the numbers of records."""
    result, start, turn = [], 0, 0
    while start < len(is_missing):
        part = is_missing[start : start + cuts[turn % len(cuts)]]
        times = np.arange(start, start + len(part))
        result += [each._replace(row=start + each.row) for each in watch.take(part, times, EVIDENCE)]
        start, turn = start + len(part), turn + 1
    return result


@pytest.mark.parametrize("share", [0.0, 0.002, 0.02])
def test_one_that_goes_missing_opens_within_forty_records_with_the_first_of_them(share):
    for seed in range(5):
        opened, cleared = found(
            MissingFeatures(), drawn(np.random.default_rng(seed), (3_000, share), (400, 1.0), (1_000, share))
        )
        assert (opened.column, opened.opened, cleared.opened) == (0, True, False)
        assert 3_020 <= opened.row < 3_045
        assert abs(opened.began - 3_000) <= 2
        assert opened.evidence["usual"] == pytest.approx(share, abs=0.01)
        assert 3_400 <= cleared.row < 3_600


def test_those_that_are_missing_now_and_then_in_bursts_or_always_open_nothing():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        share = rng.uniform(0.0, 0.2) if seed % 4 else 1.0
        is_missing = drawn(rng, (5_000, share))
        if seed % 2:
            is_missing[:, 1] = np.repeat(rng.random(500) < rng.uniform(0.01, 0.05), 10)
        assert found(MissingFeatures(), is_missing) == []


@pytest.mark.parametrize("cuts", [(1,), (7, 64, 1, 500)])
def test_cuts_and_restores_change_nothing(cuts):
    is_missing = drawn(np.random.default_rng(1), (2_000, 0.0), (1_000, 0.01), (200, 0.9), (500, 0.0))
    whole = MissingFeatures()
    changes = found(whole, is_missing)
    assert len(changes) == 2
    cut = MissingFeatures()
    before = found(cut, is_missing[:3_020], cuts)
    cut = MissingFeatures.from_state(cut.state())
    after = [each._replace(row=3_020 + each.row) for each in found(cut, is_missing[3_020:], cuts)]
    assert [each[:4] for each in before + after] == [each[:4] for each in changes]
    assert len(whole.state()) < 900


def test_a_state_that_is_none_is_refused():
    header, arrays = unpack(MissingFeatures().state(), missing_features.KIND, missing_features.REVISION)
    for changed in ({}, {"columns": np.array([0])}, {"floats": np.full_like(arrays["floats"], np.nan)}):
        members = {**arrays, **changed} if changed else {"columns": arrays["columns"]}
        with pytest.raises(StateError, match="missing_features"):
            MissingFeatures.from_state(pack(missing_features.KIND, missing_features.REVISION, header, members))
