"""Every rule on the answers opens, clears with a bound of its own, and does not see how answers are cut."""

import numpy as np
import pytest
from resonance.pipeline.task.alerts.kernels import stream_rules as rules
from scipy.signal import lfilter

LIMITS = np.array([17.2, 500.0, 2_000.0, 49.0, 0.1, 0.25])


class Stream:
    def __init__(self, limits=LIMITS):
        self.integers, self.floats = rules.new_state()
        self.limits, self.count, self.found, self.began = limits, 0, [], {}

    def take(self, clusters, novel, cuts=(512,), score=0.5):
        clusters, novel = np.asarray(clusters, np.int64).reshape(-1, 1), np.asarray(novel, bool)
        scores = np.full(len(novel), score) if np.isscalar(score) else score
        out, numbers = np.zeros((16, 5), np.int64), np.zeros((16, 4))
        start, turn = 0, 0
        while start < len(novel):
            stop = min(start + cuts[turn % len(cuts)], len(novel))
            while start < stop:
                count, start = rules.follow(
                    clusters,
                    novel,
                    scores,
                    self.count + np.arange(len(novel)),
                    start,
                    stop,
                    self.integers,
                    self.floats,
                    self.limits,
                    out,
                    numbers,
                )
                for (row, rule, opened, cluster, began), own in zip(out[:count].tolist(), numbers[:count], strict=True):
                    self.found.append((self.count + row, rule, bool(opened), cluster, tuple(own)))
                    if opened:
                        self.began[rule, cluster] = began
            turn += 1
        self.count += len(novel)
        return self

    def of(self, rule):
        return [(row, opened) for row, number, opened, *_ in self.found if number == rule]


def stationary(rng, count, share=0.03):
    return rng.integers(0, 5, count), rng.random(count) < share


def test_a_stream_that_breaks_is_unlike_within_a_hundred_records_and_clears_when_it_is_mended():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        stream = Stream().take(*stationary(rng, 2_000))
        stream.take(*stationary(rng, 3_000, 0.9)).take(*stationary(rng, 2_000))
        (opened, _), (cleared, _) = stream.of(rules.UNLIKE_RULE)
        assert 2_000 <= opened < 2_100
        assert 5_000 <= cleared < 5_300


def test_six_far_records_in_a_row_open_it_where_hardly_any_is_usual_and_six_that_are_near_do_not():
    for score, found in ((0.1, [(2_004, True)]), (0.3, [])):
        stream = Stream().take(*stationary(np.random.default_rng(0), 2_000, 0.0))
        assert stream.take(np.full(6, -1), np.ones(6), score=score).of(rules.UNLIKE_RULE) == found


@pytest.mark.parametrize("early", [0, 5, 10])
def test_a_burst_of_a_kind_that_is_known_opens_it_each_time_whatever_came_early(early):
    stream = Stream().take(*stationary(np.random.default_rng(0), 200, 0.0)).take(np.zeros(early), np.ones(early))
    stream.take(*stationary(np.random.default_rng(1), 3_000, 0.0))
    for _ in range(5):
        stream.take(np.zeros(7), np.zeros(7), score=0.24).take(*stationary(np.random.default_rng(2), 600, 0.0))
    later = [each for each in stream.found if each[0] > 3_000 and each[1] == rules.UNLIKE_RULE]
    assert [(opened, numbers[3]) for _, _, opened, _, numbers in later] == [(True, 1.0), (False, 0.0)] * 5


def test_what_lasts_is_usual_in_the_end():
    stream = Stream().take(*stationary(np.random.default_rng(0), 2_000))
    for share in (0.3, 0.9):
        stream.take(*stationary(np.random.default_rng(1), 20_000, share))
    assert not stream.integers[rules.OPEN + rules.UNLIKE_RULE]
    assert len(stream.of(rules.UNLIKE_RULE)) <= 8


def test_far_records_that_come_now_and_then_open_nothing():
    rng = np.random.default_rng(0)
    for share in (0.0005, 0.002, 0.005, 0.02):
        for _ in range(20):
            assert Stream().take(*stationary(rng, 20_000, share), score=0.01).of(rules.UNLIKE_RULE) == []


def test_a_share_between_the_bounds_neither_opens_nor_clears():
    rng = np.random.default_rng(1)
    assert Stream().take(*stationary(rng, 20_000)).take(*stationary(rng, 20_000, 0.1)).of(rules.UNLIKE_RULE) == []


def test_records_without_a_cluster_are_unlike_too():
    rng = np.random.default_rng(2)
    clusters, novel = stationary(rng, 3_000)
    clusters[2_000:] = -1
    assert [opened for _, opened in Stream().take(clusters, novel).of(rules.UNLIKE_RULE)] == [True]


def test_a_stream_that_was_never_like_anything_is_not_unlike():
    stream = Stream().take(np.full(9_000, -1), np.ones(9_000))
    assert stream.of(rules.UNLIKE_RULE) == []
    assert stream.of(rules.UNCONFIRMED) == [(499, True)]


def test_unconfirmed_clears_at_half():
    stream = Stream().take(np.full(600, -1), np.zeros(600)).take(np.zeros(40), np.zeros(40))
    assert stream.of(rules.UNCONFIRMED) == [(499, True), (600 + 15, False)]


def test_one_cluster_opens_when_it_takes_nearly_everything_and_clears_at_half():
    rng = np.random.default_rng(3)
    stream = Stream().take(rng.integers(0, 3, 5_000), np.zeros(5_000))
    assert stream.of(rules.ONE_CLUSTER) == []
    stream.take(np.full(3_000, 2), np.zeros(3_000)).take(rng.integers(0, 3, 500), np.zeros(500))
    (opened, _), (cleared, _) = stream.of(rules.ONE_CLUSTER)
    assert 6_900 < opened < 7_100
    assert 8_000 <= cleared < 8_060


def test_a_new_cluster_opens_at_its_share_and_clears_below_half_of_it():
    stream = Stream().take(*stationary(np.random.default_rng(4), 2_000, 0.0)).take(np.full(15, -1), np.zeros(15))
    rules.emerged(stream.integers, stream.floats, 9)
    ninth = np.tile([9, 1, 2, 3, 4, 1], 200)
    stream.take(ninth, np.zeros(1_200)).take(np.tile([1, 2, 3, 4], 400), np.zeros(1_600))
    (opened, _), (cleared, _) = stream.of(rules.NEW_CLUSTER)
    assert opened == 2_015 + rules.FEWEST - 1
    assert 3_200 < cleared < 3_800
    assert not rules.ended(stream.integers, stream.floats, 9)


def test_an_old_cluster_is_no_new_one():
    stream = Stream()
    rules.emerged(stream.integers, stream.floats, 0)
    assert stream.take(np.zeros(5_000), np.zeros(5_000)).of(rules.NEW_CLUSTER) == []


@pytest.mark.parametrize(("unlike", "share"), [(1, 0.03), (0, 0.2)])
def test_a_cluster_that_other_clusters_had_is_no_new_one_also_where_the_rule_on_unlike_records_is_off(unlike, share):
    stream = Stream(LIMITS * [unlike, 1, 1, 1, 1, 1]).take(*stationary(np.random.default_rng(4), 4_000, share))
    rules.emerged(stream.integers, stream.floats, 9)
    assert stream.take(np.full(1_000, 9), np.zeros(1_000)).of(rules.NEW_CLUSTER) == []


def test_more_new_clusters_than_there_is_room_for_let_the_oldest_go():
    stream = Stream().take(np.zeros(1_500), np.zeros(1_500)).take(np.full(20, -1), np.zeros(20))
    for cluster in range(1, 12):
        rules.emerged(stream.integers, stream.floats, cluster)
        stream.take([0], [False])
    assert sorted(stream.integers[rules.YOUNG : rules.COUNTS : rules.OF_YOUNG].tolist()) == list(range(4, 12))


@pytest.mark.parametrize("cuts", [(512,), (1,), (7, 3)])
@pytest.mark.parametrize(("unlike", "began"), [(15, 2_000), (400, rules.UNKNOWN)])
def test_a_kind_that_is_new_began_with_its_first_record_however_answers_are_cut(cuts, unlike, began):
    stream = Stream().take(*stationary(np.random.default_rng(4), 2_000, 0.0))
    stream.take(np.full(unlike, -1), np.ones(unlike), cuts)
    rules.emerged(stream.integers, stream.floats, 9)
    stream.take(np.full(100, 9), np.zeros(100), cuts)
    assert stream.of(rules.NEW_CLUSTER)
    assert (stream.began[rules.UNLIKE_RULE, -1], stream.began[rules.NEW_CLUSTER, 9]) == (2_000, began)


def test_one_odd_record_shortly_before_is_no_beginning():
    stream = Stream().take(*stationary(np.random.default_rng(4), 2_000, 0.0)).take([-1], [True])
    stream.take(np.zeros(4), np.zeros(4)).take(np.full(15, -1), np.ones(15))
    assert stream.began[rules.UNLIKE_RULE, -1] == 2_005


def wandering(rng, count, keep):
    """Return scores around 0.8, each so much like the one before."""
    scores = lfilter([np.sqrt(1 - keep * keep)], [1, -keep], rng.normal(0, 0.06, count))
    return np.clip(0.8 + scores, 0.3, 1.0)


def test_a_dozen_odd_records_in_a_row_open_it_but_not_where_scores_wander():
    opened = {}
    for keep in (0.0, 0.5, 0.98):
        rng = np.random.default_rng(7)
        stream = Stream(LIMITS * [1, 1, 1, 1, 1, 2]).take(
            np.zeros(4_000), np.zeros(4_000), score=wandering(rng, 4_000, keep)
        )
        stream.take(np.zeros(40), np.zeros(40), score=0.55).take(np.zeros(400), np.zeros(400), score=0.8)
        opened[keep] = stream.of(rules.UNLIKE_RULE)
    assert [len(each) for each in opened.values()] == [2, 2, 0]
    (first, _), (cleared, _) = opened[0.0]
    assert first <= 4_012
    assert cleared < 4_100


def test_scores_that_wander_are_not_odd_for_long():
    limits, none = LIMITS * [1, 1, 1, 1, 1, 2], np.zeros(20_000)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        scores = wandering(rng, 20_000, rng.choice([0.5, 0.9, 0.98, 0.998]))
        assert Stream(limits).take(none, none, score=scores).of(rules.UNLIKE_RULE) == []


def test_the_first_records_of_what_comes_now_are_no_baseline_wherever_a_block_ends():
    for age, within in ((240, 40), (320, 20), (640, 10), (1_500, 6)):
        for phase in range(rules.cusum.BLOCK):
            stream = Stream().take(np.zeros(age + phase), np.zeros(age + phase))
            stream.take(np.zeros(within), np.ones(within), score=0.1)
            assert [opened for _, opened in stream.of(rules.UNLIKE_RULE)] == [True]
            assert stream.began[rules.UNLIKE_RULE, -1] == age + phase


def test_a_block_waits_for_the_next_one_and_for_no_longer():
    unlike = np.zeros(1_000, bool)
    unlike[500::50] = True
    settled = rules.SETTLE
    for count in range(settled + rules.cusum.BLOCK, 1_000):
        stream = Stream().take(np.zeros(count), unlike[:count])
        blocks = (count - settled) // rules.cusum.BLOCK
        full = unlike[settled : settled + blocks * rules.cusum.BLOCK].reshape(blocks, -1).sum(axis=1).tolist()
        waits = int(blocks > rules.cusum.FIRST_BLOCKS)
        (known, _), (weights, _) = rules._watches(stream.integers, stream.floats)
        assert known[rules.cusum.BLOCKS] == blocks - waits
        assert stream.integers[rules.WAITING] == (full[-1] if waits else -1)
        assert weights[rules.cusum.MEAN] == pytest.approx(sum(full[: blocks - waits]) / max(blocks - waits, 1))


def test_a_state_without_blocks_that_wait_goes_on():
    stream = Stream().take(*stationary(np.random.default_rng(1), 2_000))
    made = rules.of_earlier(stream.integers[: rules.WAITING], stream.floats)
    assert made[0].tolist() == [*stream.integers[: rules.WAITING], -1, -1]
    assert made[1].tolist() == stream.floats.tolist()


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("far", [False, True])
def test_a_state_that_watched_unlike_records_alone_goes_on(times, far):
    began = [3_000] if times else []
    young = [5, 100, 1, *([2_900] if times else []), *[-1, 0, 0, *([rules.UNKNOWN] if times else [])] * 7]
    integers = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 0, 1, *began, *young])
    floats = np.array([*np.arange(1.0, 8.0), 0.3, *np.arange(8.0), *([9.0] if far else [])])
    made = rules.of_earlier(integers, floats)
    assert [each.shape for each in made] == [each.shape for each in rules.new_state()]
    assert made[0][: rules.YOUNG + 4].tolist() == [
        1,
        2,
        3,
        10,
        11,
        1,
        0,
        1,
        5,
        100,
        1,
        2_900 if times else rules.UNKNOWN,
    ]
    assert made[0][rules.COUNTS :].tolist()[:7] == [4, 5, 6, 7, 8, 9, 3_000 if times else rules.UNKNOWN]
    assert made[1][: rules.SCORE].tolist() == [0.3, *range(8)]
    assert made[1][rules.WEIGHTS :].tolist() == [*range(1, 8), 9.0 if far else 5.0, *[0.0] * 8]
    with pytest.raises(ValueError, match="rules of 46 integers and"):
        rules.of_earlier(np.zeros(46, np.int64), floats)


def test_a_rule_that_is_off_never_opens():
    rng = np.random.default_rng(5)
    stream = Stream(np.zeros(rules.LIMITS)).take(*stationary(rng, 2_000)).take(*stationary(rng, 2_000, 1.0))
    assert stream.take(np.full(9_000, -1), np.ones(9_000)).take(np.ones(9_000), np.zeros(9_000)).found == []


def test_a_thousand_stationary_streams_have_no_alert():
    found, count = [], 3_000
    for seed in range(1_000):
        rng = np.random.default_rng(seed)
        share = rng.uniform(0.001, 0.15) + 0.6 * np.exp(-np.arange(count) / rng.uniform(20, 200))
        # Bursts, as where a rare kind of record comes in runs.
        wave = np.repeat(rng.normal(size=count // 10), 10) if seed % 2 else np.zeros(count)
        novel = rng.random(count) < np.minimum(share * np.exp(0.7 * wave), 1.0)
        clusters = rng.integers(0, 4, count)
        clusters[: rng.integers(20, 300)] = -1
        found += Stream(LIMITS * [1, 10, 5, 1, 1, 1]).take(clusters, novel).found
    assert found == []
