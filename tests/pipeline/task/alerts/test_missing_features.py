"""Features that are missing for longer than ever open an alert; those that are missing now and then do not."""

from math import log, sqrt

import numpy as np
import pytest
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.pipeline.task.alerts import missing_features
from resonance.pipeline.task.alerts.missing_features import MissingFeatures

EVIDENCE = 17.2
MINUTE, WEEK = 60_000, 7 * 86_400_000


def drawn(rng, *parts):
    """Which of two features are missing, the second never, in parts with so many records and such a share."""
    first = np.concatenate([rng.random(count) < share for count, share in parts])
    return np.column_stack((first, np.zeros_like(first)))


def found(watch, is_missing, cuts=(10**9,), first=0):
    """Give records, one a minute, to a watch in turns; return what opened and cleared, by their numbers."""
    result, start, turn = [], 0, 0
    while start < len(is_missing):
        part = is_missing[start : start + cuts[turn % len(cuts)]]
        times = MINUTE * np.arange(first + start, first + start + len(part))
        result += [each._replace(row=first + start + each.row) for each in watch.take(part, times, EVIDENCE)]
        start, turn = start + len(part), turn + 1
    return result


def at_most(count, of):
    """Return the largest share that so many of some may have come of."""
    share = (count + 1) / (of + 2)
    return min(1.0, share + 3 * sqrt(share * (1 - share) / (of + 2)))


def plainly(is_missing):
    """Return number, column, whether one opened, and the run, as the rule is written in words."""
    result = []
    for column in range(is_missing.shape[1]):
        run, missed, is_open, ended = 0, 0, False, []
        for number, gone in enumerate(is_missing[:, column].tolist()):
            week = number * MINUTE // WEEK
            if not gone:
                if is_open:
                    result.append((number, column, False, run))
                if run:
                    ended.append((week, run))
                missed, run, is_open = missed + run, 0, False
                continue
            run += 1
            before = number + 1 - run
            # Weeks are counted by the runs that end.
            now = ended[-1][0] if ended else 0
            longest = max((length for at, length in ended if at >= now - 1), default=0)
            most = at_most(missed, before)
            if len(ended) >= 8:
                most = max(most, at_most(missed - longest - len(ended) + 1, missed - longest))
            enough = -run * log(most) >= EVIDENCE + log(is_missing.shape[1])
            longer = not ended or run >= (2 + 8 / len(ended)) * longest
            if not is_open and run >= 20 and longer and before - missed >= 20 and enough:
                result.append((number, column, True, run))
                is_open = True
    return sorted(result)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_is_written_plainly(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, size=(2, 1000)) * rng.choice([1] * 99 + [80], size=(2, 1000))
    columns = [np.repeat(np.arange(1000) % 2 == 1, each)[:25_000] for each in lengths]
    is_missing = np.column_stack(columns) & (rng.random((25_000, 2)) < (1.0, 0.95))
    shown = [
        (each.row, each.column, each.opened, each.evidence["missing"]) for each in found(MissingFeatures(), is_missing)
    ]
    assert shown == plainly(is_missing)
    assert len(shown) >= 2


@pytest.mark.parametrize("share", [0.0, 0.002, 0.02])
def test_one_that_goes_missing_opens_soon_and_clears_as_soon_as_it_is_back(share):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        opened, cleared = found(MissingFeatures(), drawn(rng, (3_000, share), (400, 1.0), (1, 0.0), (1_000, share)))
        assert (opened.column, opened.opened, cleared.opened, cleared.row) == (0, True, False, 3_400)
        assert 3_018 <= opened.row < 3_025
        assert opened.began == cleared.began
        assert 0 <= 3_000 * MINUTE - opened.began <= 2 * MINUTE
        assert opened.evidence["usual"] == pytest.approx(share, abs=0.01)
        assert 400 <= cleared.evidence["missing"] <= 402


def test_those_that_are_missing_now_and_then_or_always_open_nothing():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        share = rng.uniform(0.0, 0.5) if seed % 4 else 1.0
        assert found(MissingFeatures(), drawn(rng, (5_000, share))) == []


def test_what_is_missing_every_night_is_one_alert():
    night = np.arange(60 * 1_440) % 1_440 < 30
    changes = found(MissingFeatures(), np.roll(night, 700)[:, None])
    assert [(each.opened, each.row // 1_440) for each in changes] == [(True, 0), (False, 0)]


def test_what_is_missing_while_a_machine_rests_opens_nothing():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        # In use for an hour or two and then not, at night for longer, with a record in ten minutes.
        rests = rng.exponential([6, 10], size=(600, 2)).astype(int) + 1
        used = np.repeat(np.tile([False, True], 600), rests.ravel())[:8_000]
        night = (np.arange(len(used)) % 144 < 40) & (rng.random(len(used)) < 0.97)
        assert found(MissingFeatures(), (used | night)[:, None]) == []


def test_one_that_is_gone_stays_open():
    opened, cleared = found(MissingFeatures(), drawn(np.random.default_rng(0), (1_000, 0.0), (300_000, 1.0), (9, 0.0)))
    assert (opened.opened, cleared.row) == (True, 301_000)


@pytest.mark.parametrize("cuts", [(1,), (7, 64, 1, 500)])
def test_cuts_and_restores_change_nothing(cuts):
    is_missing = drawn(
        np.random.default_rng(1), (2_000, 0.0), (1_000, 0.01), (60, 1.0), (500, 0.0), (200, 1.0), (9, 0.0)
    )
    whole = MissingFeatures()
    changes = found(whole, is_missing)
    assert len(changes) == 4
    cut = MissingFeatures()
    before = found(cut, is_missing[:3_010], cuts)
    cut = MissingFeatures.from_state(cut.state())
    assert before + found(cut, is_missing[3_010:], cuts, 3_010) == changes
    assert cut.state() == whole.state()


def test_a_state_of_the_first_revision_goes_on():
    watch = MissingFeatures()
    found(watch, drawn(np.random.default_rng(0), (500, 0.1)))
    _, arrays = unpack(watch.state(), missing_features.KIND, missing_features.REVISION)
    older = pack(missing_features.KIND, 1, {}, {**arrays, "rows": arrays["rows"][:, :-1]})
    changes = found(MissingFeatures.from_state(older), drawn(np.random.default_rng(1), (200, 1.0), (1, 0.0)), first=500)
    assert [each.opened for each in changes] == [True, False]


def test_a_state_that_is_none_is_refused():
    watch = MissingFeatures()
    found(watch, drawn(np.random.default_rng(0), (500, 0.1)))
    header, arrays = unpack(watch.state(), missing_features.KIND, missing_features.REVISION)
    for changed in ({"columns": np.array([-1])}, {"records": np.array([3])}, {"rows": arrays["rows"][:, 1:]}, None):
        members = {"columns": arrays["columns"]} if changed is None else {**arrays, **changed}
        with pytest.raises(StateError, match="missing_features"):
            MissingFeatures.from_state(pack(missing_features.KIND, missing_features.REVISION, header, members))
