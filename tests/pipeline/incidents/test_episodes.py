"""Episodes of a stream are those of a literal version, which compares each sign with every one before; only faster."""

import random
import time
from collections import Counter
from math import inf
from statistics import median

import pytest
from resonance.pipeline.incidents.episodes import (
    BESIDE,
    ECHO_SECONDS,
    GAP_RECORDS,
    MANY,
    WHOLE,
    WINDOW_RECORDS,
    Episode,
    episodes,
)
from resonance.pipeline.incidents.merging import without_earlier
from resonance.pipeline.incidents.signs import Move, Sign, Value

DAY = 86_400.0


BRANCHES = Counter()
"""Why episodes took signs."""


class PlainEpisode(Episode):
    """An episode that looks through all its signs."""

    def takes(self, sign):
        if sign.continues:
            return self._is(any(each.key == sign.continues for each in self.signs), "continues")
        self._is(self.is_lone and self._is_other(sign), "other")
        return self._is(super().takes(sign), "echoes" if self._echoes(sign) else sign.rule)

    def begins(self, sign):
        is_far = any(abs(each.value - each.usual) > each.high - each.low for each in self.values.values())
        is_near = abs(self._known - sign.onset) <= WINDOW_RECORDS * self.pace and self._known < inf
        return bool(sign.continues) and self._is(is_far and is_near and Episode.takes(self, sign), "begins")

    def has_shown(self, sign):
        if sign.continues:
            return self._is(any(each.key == sign.continues for each in self.later), "continues later")
        return self._is(super().has_shown(sign), "later")

    def swings(self, sign):
        if not self.is_drift or not self.drifts or sign.rule != "drift":
            return False
        if any(move.is_stuck for move in sign.varies.values()):
            return False
        inside = 0
        for name in self.places.keys() & sign.moves.keys():
            (low, high), after = self.places[name], sign.moves[name].after
            inside += low - BESIDE * (high - low) <= after <= high + BESIDE * (high - low)
        return self._is(2 * inside > len(sign.moves), "swings")

    def _is(self, is_so, branch):
        BRANCHES[branch] += is_so
        return is_so


def plain_episodes(signs, paces):
    usual = median(paces.values()) if paces else 0.0
    found = {}
    for sign in signs:
        own = found.setdefault(sign.place, [])
        begun = [each for each in own if each.begins(sign)]
        fitting = begun or [each for each in own if each.takes(sign)]
        shown = [each for each in own if not begun and each.has_shown(sign)]
        if shown and not any(each is one for each in shown for one in fitting):
            shown[-1].later.append(sign)
            continue
        fitting = fitting or [each for each in own if each.swings(sign)][-1:]
        if not fitting:
            fitting = [PlainEpisode(sign.place, paces.get(sign.place, usual), is_lone=len(paces) < MANY)]
            own += fitting
        min(fitting, key=lambda each: abs(each.began - sign.onset)).add(sign)
    return sorted((each for own in found.values() for each in own), key=lambda each: (each.began, each.place))


def some_signs(chance, count, paces):
    """Signs of streams in the order of time: in bursts and far apart, begun just now or long ago."""
    found, at = [], chance.uniform(0.0, 1.7e9)
    step = chance.choice([60.0, 3_000.0, 20_000.0, 90_000.0])
    for number in range(count):
        at += chance.choice([0.0, 0.1, 1.0, 1.0, 4.0]) * step * chance.choice([1, chance.random()])
        place = chance.choice([*paces, "new"])
        rule = chance.choice(["unlike", "unlike", "drift", "drift", "drift", "new_cluster", "silent", "one_cluster"])
        ago = chance.choice([0.0, 30.0, 0.5 * GAP_RECORDS * 60, GAP_RECORDS * 60, ECHO_SECONDS, 3 * DAY])
        onset = at - ago * chance.choice([1.0, chance.random()])
        sign = Sign(f"k{number}", place, place, rule, "warning", at, onset, "")
        if rule == "drift":
            drifts = [each for each in found if each.rule == "drift" and each.place == place]
            if drifts and chance.random() < 0.5:
                sign.continues = chance.choice([drifts[-1].key, chance.choice(drifts).key, "gone"])
            names = chance.sample("abc", chance.randint(0, 3))
            sign.moves = {name: Move(*(chance.randint(0, 9) for _ in range(2)), 3.0, 1.0) for name in names}
            sign.varies = {"d": Move(1, 1, 0.0, chance.choice([0.01, 5.0]))} if chance.random() < 0.1 else {}
            sign.until = chance.choice([at, at + 600.0, at + 20_000.0, inf])
        elif rule == "new_cluster":
            sign.share = chance.choice([0.0, WHOLE, 0.9])
        elif rule == "silent":
            sign.until = at + chance.choice([0.0, 5_000.0])
        if rule in ("unlike", "new_cluster") and chance.random() < 0.6:
            usual = chance.randint(0, 9)
            names = chance.choice(["abc", "abc", "abc", "ef"])
            sign.values = {name: Value(chance.randint(0, 9), usual, usual + 1) for name in names}
            sign.is_known = chance.random() < 0.5
        found.append(sign)
    return found


def test_episodes_are_those_of_a_comparison_of_each_sign_with_all_before():
    chance = random.Random(7)
    BRANCHES.clear()
    for _ in range(800):
        streams = "stuv"[: chance.choice([2, 2, 3])]
        paces = dict(zip(streams, chance.sample([0.0, 1.0, 60.0, 300.0], len(streams)), strict=True))
        signs = some_signs(chance, chance.randint(1, 50), paces)
        found, plain = episodes(signs, paces), plain_episodes(signs, paces)
        assert [(each.began, each.place, each.signs, each.later) for each in found] == [
            (each.began, each.place, each.signs, each.later) for each in plain
        ]
    rules = {"unlike", "drift", "new_cluster", "silent", "one_cluster"}
    branches = rules | {"begins", "continues", "echoes", "continues later", "later", "swings", "other"}
    assert {each for each in branches if BRANCHES[each] < 10} == set()


def test_many_signs_of_a_stream_are_grouped_in_a_time_that_grows_with_their_number():
    def alert(number):
        return Sign(f"a{number}", "s", "s", "unlike", "warning", 1e5 * number + 60.0, 1e5 * number, "")

    def counter(number):
        at, moves = 1e5 * number, {"total": Move(10.0 * number, 10.0 * number + 5, 3.0, 1.0)}
        return Sign(f"d{number}", "s", "s", "drift", "warning", at + 60.0, at, "", moves=moves, until=at + 500.0)

    def goes_on(number):
        sign = counter(number)
        sign.continues = f"d{number - 1}" if number else ""
        return sign

    for make in (alert, counter, goes_on):
        signs = [*map(make, range(8_000))]
        began = time.process_time()
        assert len(episodes(signs, {"s": 10.0})) == (1 if make is goes_on else 8_000)
        # A comparison of each with all before takes 30 s and more.
        assert time.process_time() - began < 3.0


@pytest.mark.parametrize(
    ("onset", "seen", "ratio", "parts"), [(1e4, 7e4, 3.0, 2), (1e4, 1.005e5, 3.0, 1), (1e4, 7e4, 0.0, 1)]
)
def test_noise_of_one_stream_that_was_seen_long_before_a_change_of_all_is_no_part_of_it(onset, seen, ratio, parts):
    group = []
    for place in "abcde":
        episode = Episode(place, 60.0)
        if place == "c":
            varies = {"heat": Move(6.0, 6.0, 0.0, ratio)} if ratio else {}
            episode.add(Sign("d", place, place, "drift", "warning", seen, onset, "", varies=varies))
        episode.add(Sign(f"a{place}", place, place, "unlike", "warning", 1e5 + 300.0, 1e5 + 10.0 * ord(place), ""))
        group.append(episode)
    found = without_earlier([group])
    assert [[each.place for each in part] for part in found] == [["c"], [*"abcde"]][-parts:]
    if parts > 1:
        (alone,), (*_, rest, _, _) = found
        assert (alone.is_alone, [each.key for each in alone.signs], [each.key for each in rest.signs]) == (
            True,
            ["d"],
            ["ac"],
        )
