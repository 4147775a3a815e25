"""Features that are missing for longer than ever, or more often, open an alert; those missing now and then do not."""

from math import log, sqrt

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.pipeline.records import Record
from resonance.pipeline.task.alerts import missing_features
from resonance.pipeline.task.alerts.missing_features import MissingFeatures
from resonance.pipeline.timestamps import canonical
from resonance.schemas import load_schema

from tests.pipeline.streams import STAMP, TOPIC, Held, payloads, process, run, task, uneven, value_of
from tests.pipeline.task.alerts.devices import given

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


class Share:
    """The CUSUM of how often runs begin, as the rule is written in words, over all its blocks at once."""

    def __init__(self, records, evidence):
        self.evidence, self.waiting, self.blocks, self.w, self.hold = evidence, [], [], 0.0, 0.0
        self.run, self.began, self.gone, self.of = [], None, 0, 0
        for _ in range(records // 32):
            self.wait(0)
        self.block = [0] * (records % 32)

    def wait(self, gone):
        """Let half of all blocks wait, and 16 at most, before they are what is usual."""
        if len(self.waiting) >= min((len(self.waiting) + len(self.blocks) + 1) / 2, 16):
            self.end_block(self.waiting.pop(0))
        self.waiting.append(gone)

    def learn(self):
        """Derive the usual share and the threshold from the blocks so far, the older of which fade."""
        if len(self.blocks) < 4:
            return
        mean = square = cross = 0.0
        for number, (last, gone) in enumerate(zip([0, *self.blocks], self.blocks, strict=False), 1):
            weight = 1.0 / min(number, 256)
            mean += (gone - mean) * weight
            square += (gone * gone - square) * weight
            if number > 1:
                cross += (gone * last - cross) * (1.0 / min(number - 1, 256))
        blocks, share = min(len(self.blocks), 256), mean / 32
        inflation = max(1 + 32 / blocks, 1.0)
        variance, between = 32 * max(share * (1 - share), 0.002), square - mean * mean
        if between > 0:
            rho = min(max((cross - mean * mean) / between, 0.0), 0.9)
            inflation = max(between / variance * ((1 + rho) / (1 - rho)), inflation)
        usual = share + 3 * sqrt(inflation * share * (1 - share) / (blocks * 32)) + 1 / (blocks * 32)
        if usual > 0.4:
            self.hold = self.w = 0.0
            return
        usual = max(usual, 0.01)
        high = max(0.2, 3 * usual / (1 - usual + 3 * usual))
        self.hit, self.miss = log(high / usual), log((1 - high) / (1 - usual))
        self.share, self.hold = share, self.evidence * inflation

    def end_block(self, gone):
        mean = 0.0
        for number, each in enumerate(self.blocks, 1):
            mean += (each - mean) / min(number, 256)
        self.blocks.append(min(gone, int(2 + 2 * mean)))
        if len(self.blocks) >= 4 and (len(self.blocks) < 64 or len(self.blocks) % 16 == 0):
            self.learn()

    def take(self, number, gone, is_open):
        """Return whether it opens or clears; of a run only the first record is to be taken."""
        if self.hold > 0 or is_open:
            if self.w == 0:
                self.run = []
            if self.w == 0 or (gone and sum(self.run) == 0 and self.w < 0.5 * self.hit):
                self.began = number
            if not self.run:
                self.gone = self.of = 0
            self.run.append(gone)
            self.w = min(max(self.w + (self.hit if gone else self.miss), 0.0), self.hold)
        self.gone, self.of = self.gone + gone, self.of + 1
        if is_open:
            if self.w > 0.25 * self.hold:
                return False
            for _ in range(min(len(self.run) // 32, 256)):
                self.end_block(sum(self.run) * 32 // len(self.run))
            self.w = 0.0
            return True
        if self.w >= self.hold > 0:
            return True
        self.block.append(gone)
        if self.w > 0.5 * self.evidence and len(self.run) - sum(self.run) <= 1024:
            self.block = []
        if len(self.block) == 32:
            self.wait(sum(self.block))
            self.block = []
        return False


def plainly(is_missing):
    """Return number, column, whether one opened, and of how many records the feature was missing in how many."""
    result, evidence = [], EVIDENCE + log(2 * is_missing.shape[1])
    for column in range(is_missing.shape[1]):
        run, missed, opened, ended, share = 0, 0, "", [], None
        for number, gone in enumerate(is_missing[:, column].tolist()):
            week = number * MINUTE // WEEK
            if gone and share is None:
                share = Share(number, evidence)
            if not gone and run:
                if opened == "run":
                    result.append((number, column, False, run, None))
                    opened = ""
                ended.append((week, run))
                missed, run = missed + run, 0
            if gone:
                run += 1
                before = number + 1 - run
                # Weeks are counted by the runs that end.
                now = ended[-1][0] if ended else 0
                longest = max((length for at, length in ended if at >= now - 1), default=0)
                most = at_most(missed, before)
                if len(ended) >= 8:
                    most = max(most, at_most(missed - longest - len(ended) + 1, missed - longest))
                longer = not ended or run >= (2 + 8 / len(ended)) * longest
                if not opened and run >= 20 and longer and before - missed >= 20 and -run * log(most) >= evidence:
                    result.append((number, column, True, run, None))
                    opened = "run"
            if share is not None and run > 1:
                share.gone, share.of = share.gone + 1, share.of + 1
            elif share is not None and share.take(number, gone, opened == "share"):
                result.append((number, column, not opened, share.gone, share.of))
                opened = "" if opened else "share"
    return sorted(result)


def shown(changes):
    numbers = [(each.evidence["missing"], each.evidence.get("records")) for each in changes]
    return [(each.row, each.column, each.opened, *own) for each, own in zip(changes, numbers, strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_is_written_plainly(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, size=(2, 1000)) * rng.choice([1] * 99 + [80], size=(2, 1000))
    columns = [np.repeat(np.arange(1000) % 2 == 1, each)[:25_000] for each in lengths]
    is_missing = np.column_stack(columns) & (rng.random((25_000, 2)) < (1.0, 0.95))
    changes = shown(found(MissingFeatures(), is_missing))
    assert changes == plainly(is_missing)
    assert len(changes) >= 2


@pytest.mark.parametrize("seed", range(6))
def test_so_is_the_share(seed):
    rng = np.random.default_rng(seed)
    parts = [(int(rng.integers(50, 3_000)), share) for share in rng.uniform(0.0, 0.5, 12)]
    is_missing = drawn(rng, (int(rng.integers(0, 2_000)), 0.0), *parts, (100, 1.0), (2_000, 0.01))
    changes = shown(found(MissingFeatures(), is_missing))
    assert changes == plainly(is_missing)
    assert any(of for *_, of in changes)


@pytest.mark.parametrize(("before", "after", "within"), [(0.0, 0.3, 150), (0.01, 0.4, 100), (0.05, 0.4, 200)])
def test_one_that_is_missing_more_often_is_open_until_it_is_as_before(before, after, within):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        changes = found(MissingFeatures(), drawn(rng, (3_000, before), (3_000, after), (2_000, before)))
        first, last = changes[0], changes[-1]
        assert 3_000 <= first.row < 3_000 + within
        assert abs(first.began // MINUTE - 3_000) <= 80
        assert first.evidence["usual"] == pytest.approx(before, abs=0.02)
        assert last.evidence["missing"] / last.evidence["records"] == pytest.approx(after, abs=0.1)
        assert (last.column, last.opened) == (0, False)
        assert 6_000 <= last.row < 6_300
        assert len(changes) == 2


def test_one_that_is_missing_ever_more_often_opens_once():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        share = np.concatenate((np.full(4_000, 0.01), np.linspace(0.01, 0.4, 6_000), np.full(9_000, 0.4)))
        (opened,) = found(MissingFeatures(), (rng.random(len(share)) < share)[:, None])
        assert 4_000 < opened.began // MINUTE < opened.row < 7_000


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


@pytest.mark.parametrize("share", [0.002, 0.03, 0.1, 0.25])
def test_what_is_missing_in_short_runs_or_at_some_hours_more_than_at_others_opens_nothing(share):
    rng = np.random.default_rng(7)
    runs = rng.geometric([share / (3 * (1 - share)), 1 / 3], size=(40_000, 2))
    short = np.repeat(np.tile([False, True], 40_000), runs.ravel())[:60_000]
    by_hour = rng.random(60_000) < share * (1 + 0.9 * np.sin(2 * np.pi * np.arange(60_000) / 1_440))
    for is_missing in (short, by_hour):
        assert found(MissingFeatures(), is_missing[:, None]) == []


def test_one_that_is_gone_stays_open():
    opened, cleared = found(MissingFeatures(), drawn(np.random.default_rng(0), (1_000, 0.0), (300_000, 1.0), (9, 0.0)))
    assert (opened.opened, cleared.row) == (True, 301_000)


@pytest.mark.parametrize("cuts", [(1,), (7, 64, 1, 500)])
def test_cuts_and_restores_change_nothing(cuts):
    is_missing = drawn(
        np.random.default_rng(1), (2_000, 0.0), (1_000, 0.01), (60, 1.0), (500, 0.0), (200, 1.0), (9, 0.4), (300, 0.4)
    )
    whole = MissingFeatures()
    changes = found(whole, is_missing)
    assert len(changes) == 5
    cut = MissingFeatures()
    before = found(cut, is_missing[:3_010], cuts)
    cut = MissingFeatures.from_state(cut.state())
    assert before + found(cut, is_missing[3_010:], cuts, 3_010) == changes
    assert cut.state() == whole.state()


@pytest.mark.parametrize("revision", [1, 2])
def test_a_state_of_an_earlier_revision_goes_on(revision):
    watch = MissingFeatures()
    found(watch, drawn(np.random.default_rng(0), (500, 0.1)))
    _, arrays = unpack(watch.state(), missing_features.KIND, missing_features.REVISION)
    rows = arrays["rows"][:, : {1: 7, 2: 8}[revision]]
    older = pack(
        missing_features.KIND, revision, {}, {**{name: arrays[name] for name in ("records", "columns")}, "rows": rows}
    )
    later = drawn(np.random.default_rng(1), (200, 1.0), (1, 0.0), (1_000, 0.05), (500, 0.6))
    changes = found(MissingFeatures.from_state(older), later, first=500)
    assert [each.opened for each in changes] == [True, False, True]


def test_a_state_that_is_none_is_refused():
    watch = MissingFeatures()
    found(watch, drawn(np.random.default_rng(0), (500, 0.1)))
    header, arrays = unpack(watch.state(), missing_features.KIND, missing_features.REVISION)
    for changed in (
        {"columns": np.array([-1])},
        {"records": np.array([3])},
        {"rows": arrays["rows"][:, 1:]},
        {"weights": np.zeros(1)},
        None,
    ):
        members = {"columns": arrays["columns"]} if changed is None else {**arrays, **changed}
        with pytest.raises(StateError, match="missing_features"):
            MissingFeatures.from_state(pack(missing_features.KIND, missing_features.REVISION, header, members))


def without_cpu(gone=range(1_500, 1_560), often=0.01):
    """Records of three devices in turn, some without a feature; one device lacks it for a while in all of its own."""
    rng = np.random.default_rng(2)
    centres, log = rng.uniform(1.0, 9.0, (3, 3, 3)), []
    for turn in range(1_800):
        for device in range(3):
            row = (centres[device, rng.integers(3)] * (1.0 + 0.05 * rng.normal(size=3))).tolist()
            value = orjson.loads(value_of(row))
            if rng.random() < often or (device == 1 and turn in gone):
                value["cpu"] = None
            log.append(Record(TOPIC, 0, len(log), STAMP + 1_000 * turn, b"d%d" % device, orjson.dumps(value)))
    return log


def test_a_feature_that_is_missing_far_more_often_than_it_was_opens_an_alert_whatever_the_cuts_and_restarts_are():
    log, mean = without_cpu(), given(prepare__missing="mean")
    whole = run(task(mean), log)
    opened, cleared = (each for each in payloads(whole.alerts) if each["rule"] == "missing")
    Draft202012Validator(load_schema("alert")).validate(opened)
    assert (opened["kind"], opened["stream"], opened["feature"], opened["began"]) == (
        "opened", "p0:d1", "cpu", canonical(STAMP + 1_500_000),
    )  # fmt: skip
    assert opened["evidence"]["missing"] == 20
    assert opened["text"].startswith("p0:d1 lacks cpu: ")
    assert (cleared["kind"], cleared["key"], cleared["evidence"]["missing"]) == ("cleared", opened["key"], 60)
    for seed in range(3):
        assert process(task(mean), uneven(log, seed)).alerts == whole.alerts
    first, held = 3 * 1_500 + 7, Held(task(mean))
    found = held.task.process(log[:first]).alerts
    held.read = first
    held.write(held.task.models.pending(everything=True), log[first - 1].offset + 1)
    held.restore(task(mean), log, 64)
    assert found + held.task.process(log[first:]).alerts == whole.alerts
    off = run(task(given(prepare__missing="mean", alerts__off=["missing"])), log)
    others = [alert for alert in payloads(whole.alerts) if alert["rule"] != "missing"]
    assert [(alert["text"], alert["cause"]) for alert in payloads(off.alerts)] == [
        (alert["text"], alert["cause"]) for alert in others
    ]
    assert off.assignments == whole.assignments
