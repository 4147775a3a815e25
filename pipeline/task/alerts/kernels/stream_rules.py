"""Rules on the answers of one stream: unlike, new cluster, one cluster, unconfirmed.

A record is *unlike* if it is novel, has no cluster, or is unusual by its score, *far* if its score is low, and *odd* if
it is unlike or nearly so. Unlike records, and odd ones, are each watched by a CUSUM of log likelihood ratios, of the
stream's own long-run share against a far higher one. They come in bursts, so its threshold is inflated by the ratio of
long-run variance to variance, measured on blocks of the stream.

The state of a stream is an array of integers and one of floats; all of it is a function of the answers alone, however
they are cut into batches.
"""

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray
from resonance.kernels.arithmetic import correlation_time, jit
from resonance.pipeline.task.alerts.kernels import cusum

# Integers of the state.
N = 0  # answers so far
NONE = 1  # answers without a cluster, less 16 for each one with a cluster
SETTLED = 2  # answers since the first one with a cluster
LARGEST = 3  # the cluster that may take nearly everything
LARGEST_RUN = 4  # its records, less `limits[PENALTY]` for each other record
OPEN = 5  # of each of the rules of a stream 1 if it is open, of the first one more than the watch: 3 integers
YOUNG = 8  # the new clusters: 8 times id, answers since it emerged, whether its alert is open, `BEGAN` when it emerged
OF_YOUNG = 4
YOUNG_CLUSTERS = 8
COUNTS = YOUNG + OF_YOUNG * YOUNG_CLUSTERS  # of each watch:
WATCHES = 2
"""That of unlike records, and that of odd ones, to which all these are the unlike ones."""

WAITING = COUNTS + cusum.OF_COUNTS * WATCHES  # unlike records of the block of each watch that waits; -1: none does
INTEGERS = WAITING + WATCHES

UNKNOWN = -(1 << 62)
"""The time of a record where it is not known."""

# Floats of the state.
NOW = 0  # recent share of unlike records
SHARE = 1  # recent share of each new cluster: 8 floats
SCORE = SHARE + YOUNG_CLUSTERS  # the last score, the mean, of the squares, of the products of two in a row: 4 floats
WEIGHTS = SCORE + 4  # of each watch:
FLOATS = WEIGHTS + cusum.OF_WEIGHTS * WATCHES

# Rules, as `OPEN` and transitions number them.
UNLIKE_RULE = 0
UNCONFIRMED = 1
ONE_CLUSTER = 2
NEW_CLUSTER = 3

# Thresholds.
EVIDENCE = 0  # log of the records between two false alerts; 0: the rule `unlike` is off
UNCONFIRMED_RECORDS = 1  # 0: off
ONE_CLUSTER_RECORDS = 2  # 0: off
PENALTY = 3
NEW_SHARE = 4  # 0: off
UNUSUAL = 5  # a record with a lower score is unusual
LIMITS = 6

SETTLE = 64
"""Records after the first one with a cluster that a model founds its nodes with: no baseline yet."""

FAR = 0.2
"""A record is far below this score: twice as far from what its cluster has as an unlike one at least is."""

ODD = 1.2
"""An odd record is below so many times the score of an unusual one: two thirds as far from what its cluster has."""

ODD_EVIDENCE = 3.0
"""More evidence that odd records need than unlike ones, whose false alerts are then one in twenty more (e**-3)."""

NOVEL_RECORDS = 80.0
"""Records, all of them unlike, that open the rule whatever the dependence is; of odd ones no number does."""

HIGH, TIMES = 0.5, 8.0
"""Share of unlike records that is watched for, at least, and how many times its odds are the usual ones."""

STARTED = 1024
"""Answers after which a cluster that emerges is a new one."""

GROWN = 8192
"""Answers after which a cluster is new no longer."""

RECENT = 256
"""Answers that the recent share of a cluster averages."""

FEWEST = 64
"""Answers before the share of a new cluster counts."""

SOON = 1024
"""Answers within which a new cluster has its share; one that grows for longer is no news."""

EXCESS = 0.03
"""Unlike records beyond the usual share, among the recent answers, with which a cluster emerges that is a new kind.

Without them its records had another cluster before: the engine has only divided or named anew what it knew.
"""


def new_state() -> tuple[IntArray, FloatArray]:
    """Return the state of a stream without answers."""
    integers = np.zeros(INTEGERS, np.int64)
    integers[YOUNG:COUNTS:OF_YOUNG] = integers[WAITING:] = integers[LARGEST] = -1
    _watches(integers, np.zeros(FLOATS))[0][:, cusum.BEGAN] = UNKNOWN
    return integers, np.zeros(FLOATS)


def of_earlier(integers: IntArray, floats: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return what a state of an earlier revision is now; one of the present revision is the same.

    The last such had no blocks that wait. Those before had a watch of unlike records alone; the first one had neither
    times of first records nor a weight of far ones: that follows at the next block.

    Raises
    ------
    ValueError
        It is no such state.
    """
    made = new_state()
    if len(floats) == FLOATS and len(integers) in (WAITING, INTEGERS):
        made[0][: len(integers)] = integers
        made[1][:] = floats
        return made
    if len(integers) not in (38, 47) or len(floats) not in (16, 17):
        raise ValueError(f"rules of {len(integers)} integers and {len(floats)} floats")
    began, young = integers[14:15], integers[15:]
    if len(integers) == 38:
        began, young = np.array([UNKNOWN]), np.insert(integers[14:].reshape(-1, 3), 3, UNKNOWN, axis=1).ravel()
    made[0][:COUNTS] = np.concatenate((integers[:3], integers[9:14], young))
    made[1][:SCORE] = floats[7:16]
    counts, weights = _watches(*made)
    counts[0] = np.append(integers[3:9], began)
    weights[0] = np.append(floats[:7], floats[16] if len(floats) > 16 else floats[cusum.HIT])
    return made


@jit
def _watches(integers, floats):
    """Return the counts and the weights of the watches, a row each."""
    counts = integers[COUNTS:WAITING].reshape(WATCHES, cusum.OF_COUNTS)
    return counts, floats[WEIGHTS:].reshape(WATCHES, cusum.OF_WEIGHTS)


@jit
def _follow_scores(scores, score, answers):
    """Note a score, and return how many records in a row say as much as one that is independent of the others."""
    if answers > 1:
        weight = 1.0 / min(answers, cusum.MEMORY * cusum.BLOCK)
        scores[1] += (score - scores[1]) * weight
        scores[2] += (score * score - scores[2]) * weight
        scores[3] += (score * scores[0] - scores[3]) * weight
    scores[0] = score
    variance = scores[2] - scores[1] * scores[1]
    return correlation_time(variance, scores[3] - scores[1] * scores[1], 0.999) if variance > 0.0 else 1.0


@jit
def _learn(counts, weights, waiting, unlike, is_open, rule, alike):
    """Count a record, and return what waits now: but for the first ones a full block is baseline when the next is full.

    It is none if a run that began in it has become suspicious: the first records of what comes now would say that such
    are usual, most of all in a stream that is young.
    """
    is_within = counts[cusum.RUN] <= counts[cusum.IN_BLOCK] + 1
    full = cusum.count(counts, weights, unlike, is_open, rule[0])
    is_dropped = full < 0 and counts[cusum.IN_BLOCK] == 0
    if full >= 0 and counts[cusum.BLOCKS] < cusum.FIRST_BLOCKS:
        cusum.end_block(counts, weights, full, rule, alike)
        return -1
    if waiting >= 0 and (full >= 0 or (is_dropped and is_within)):
        cusum.end_block(counts, weights, waiting, rule, alike)
    return full if full >= 0 or is_dropped else waiting


@jit
def _put(out, numbers, found, row, rule, opened, cluster, first, second, third, fourth=0.0, began=UNKNOWN):
    out[found, 0] = row
    out[found, 1] = rule
    out[found, 2] = opened
    out[found, 3] = cluster
    out[found, 4] = began
    numbers[found, 0] = first
    numbers[found, 1] = second
    numbers[found, 2] = third
    numbers[found, 3] = fourth
    return found + 1


@jit
def follow(clusters, novel, scores, times, start, stop, integers, floats, limits, out, numbers):
    """Follow the answers from one position to another; return how many alerts opened or cleared, and where it stopped.

    It stops early where `out` (row, rule, opened, cluster, time of the first record) has no room for the transitions of
    one more record. `numbers` has the evidence of each transition, four numbers; `times` are in milliseconds.
    """
    found = 0
    room = len(out) - 3 - YOUNG_CLUSTERS
    counts, weights = _watches(integers, floats)
    waiting = integers[WAITING:]
    evidence = limits[EVIDENCE]
    of_unlike = (evidence, NOVEL_RECORDS, HIGH, TIMES)
    of_odd = (evidence + ODD_EVIDENCE if evidence > 0.0 else 0.0, np.inf, HIGH, TIMES)
    any_young = False
    for j in range(YOUNG, COUNTS, OF_YOUNG):
        any_young = any_young or integers[j] >= 0
    for i in range(start, stop):
        if found > room:
            return found, i
        cluster = clusters[i, 0]
        integers[N] += 1
        is_new = novel[i] or cluster < 0
        unlike = 1 if is_new or scores[i] < limits[UNUSUAL] else 0
        floats[NOW] += (unlike - floats[NOW]) / min(integers[N], RECENT)
        # A new cluster is one of records that are unlike beyond the usual share, so that rule needs it too.
        if (evidence > 0.0 or limits[NEW_SHARE] > 0.0) and (integers[SETTLED] > 0 or cluster >= 0):
            integers[SETTLED] += 1
            if integers[SETTLED] > SETTLE:
                odd = 1 if unlike == 1 or scores[i] < ODD * limits[UNUSUAL] else 0
                if evidence > 0.0:
                    was_open = integers[OPEN + UNLIKE_RULE]
                    cusum.advance(counts[0], weights[0], unlike, scores[i] < FAR, times[i], was_open > 0)
                    cusum.advance(counts[1], weights[1], odd, False, times[i], was_open > 0)
                    # The watch that opens it clears it.
                    k = was_open - 1 if was_open > 0 else 1 - cusum.is_reached(weights[0])
                    run, of_run = float(counts[k, cusum.RUN]), float(counts[k, cusum.RUN_UNLIKE])
                    usual = weights[k, cusum.MEAN] / cusum.BLOCK
                    if was_open == 0 and cusum.is_reached(weights[k]):
                        integers[OPEN + UNLIKE_RULE] = 1 + k
                        known, began = 0.0 if is_new else 1.0, counts[k, cusum.BEGAN]
                        found = _put(out, numbers, found, i, UNLIKE_RULE, 1, -1, run, of_run, usual, known, began)
                    elif was_open > 0 and weights[k, cusum.W] <= 0.25 * weights[k, cusum.HOLD]:
                        integers[OPEN + UNLIKE_RULE] = 0
                        weights[:, cusum.W] = 0.0
                        found = _put(out, numbers, found, i, UNLIKE_RULE, 0, -1, run, of_run, usual)
                is_open = integers[OPEN + UNLIKE_RULE] > 0
                waiting[0] = _learn(counts[0], weights[0], waiting[0], unlike, is_open, of_unlike, 1.0)
                # A stream that wanders is odd for long now and then: fewer of its records say as much.
                score = scores[i] if scores[i] >= 0.0 else 0.0
                alike = _follow_scores(floats[SCORE:WEIGHTS], score, integers[SETTLED] - SETTLE)
                waiting[1] = _learn(counts[1], weights[1], waiting[1], odd, is_open, of_odd, alike)
        most = int(limits[UNCONFIRMED_RECORDS])
        if most > 0:
            integers[NONE] = min(integers[NONE] + 1, most) if cluster < 0 else max(integers[NONE] - 16, 0)
            if integers[OPEN + UNCONFIRMED] == 0:
                if integers[NONE] == most:
                    integers[OPEN + UNCONFIRMED] = 1
                    found = _put(out, numbers, found, i, UNCONFIRMED, 1, -1, float(integers[N]), float(most), 0.0)
            elif integers[NONE] <= most // 2:
                integers[OPEN + UNCONFIRMED] = 0
                found = _put(out, numbers, found, i, UNCONFIRMED, 0, -1, float(integers[N]), float(most), 0.0)
        most = int(limits[ONE_CLUSTER_RECORDS])
        if most > 0:
            if cluster >= 0 and cluster == integers[LARGEST]:
                integers[LARGEST_RUN] = min(integers[LARGEST_RUN] + 1, most)
            else:
                integers[LARGEST_RUN] = max(integers[LARGEST_RUN] - int(limits[PENALTY]), 0)
            is_open = integers[OPEN + ONE_CLUSTER] == 1
            if not is_open and integers[LARGEST_RUN] == most:
                integers[OPEN + ONE_CLUSTER] = 1
                found = _put(
                    out, numbers, found, i, ONE_CLUSTER, 1, integers[LARGEST], float(integers[N]), float(most), 0.0
                )
            elif is_open and integers[LARGEST_RUN] <= most // 2:
                integers[OPEN + ONE_CLUSTER] = 0
                found = _put(
                    out, numbers, found, i, ONE_CLUSTER, 0, integers[LARGEST], float(integers[N]), float(most), 0.0
                )
            if integers[LARGEST_RUN] == 0:
                integers[LARGEST] = cluster
        if any_young:
            for k in range(YOUNG_CLUSTERS):
                j = YOUNG + OF_YOUNG * k
                if integers[j] < 0:
                    continue
                integers[j + 1] += 1
                age = integers[j + 1]
                hit = 1.0 if integers[j] == cluster else 0.0
                floats[SHARE + k] += (hit - floats[SHARE + k]) / min(age, RECENT)
                share = floats[SHARE + k]
                if integers[j + 2] == 0 and FEWEST <= age <= SOON and share >= limits[NEW_SHARE]:
                    integers[j + 2] = 1
                    found = _put(
                        out, numbers, found, i, NEW_CLUSTER, 1, integers[j], float(age), share, limits[NEW_SHARE],
                        0.0, integers[j + 3],
                    )  # fmt: skip
                elif integers[j + 2] == 1 and (share < 0.5 * limits[NEW_SHARE] or age >= GROWN):
                    integers[j + 2] = 0
                    found = _put(
                        out, numbers, found, i, NEW_CLUSTER, 0, integers[j], float(age), share, limits[NEW_SHARE]
                    )
                if age >= GROWN:
                    integers[j] = -1
                    integers[j + 1] = 0
                    floats[SHARE + k] = 0.0
    return found, stop


def emerged(integers: IntArray, floats: FloatArray, cluster: int) -> None:
    """Note that a cluster emerged: it is new if the stream is not, and it came with records that are unlike all before.

    The oldest new one without an alert makes room for it.
    """
    counts, weights = (rows[0] for rows in _watches(integers, floats))
    if integers[N] < STARTED or floats[NOW] < weights[cusum.MEAN] / cusum.BLOCK + EXCESS:
        return
    places = integers[YOUNG:COUNTS].reshape(-1, OF_YOUNG)
    free = [k for k in range(YOUNG_CLUSTERS) if places[k, 0] < 0]
    rest = sorted((k for k in range(YOUNG_CLUSTERS) if not places[k, 2]), key=lambda k: (-int(places[k, 1]), k))
    if chosen := (free or rest)[:1]:
        # A long run is of more than this cluster.
        is_its_run = weights[cusum.W] > 0.0 and counts[cusum.RUN] <= RECENT
        places[chosen[0]] = cluster, 0, 0, counts[cusum.BEGAN] if is_its_run else UNKNOWN
        floats[SHARE + chosen[0]] = 0.0


def ended(integers: IntArray, floats: FloatArray, cluster: int) -> bool:
    """Note that a cluster ended; return whether its alert was open."""
    places = integers[YOUNG:COUNTS].reshape(-1, OF_YOUNG)
    was_open = False
    for k in range(YOUNG_CLUSTERS):
        if places[k, 0] == cluster:
            was_open = bool(places[k, 2])
            places[k] = -1, 0, 0, UNKNOWN
            floats[SHARE + k] = 0.0
    return was_open


def switch_off(integers: IntArray, floats: FloatArray, limits: FloatArray) -> None:
    """Forget what the rules that are off have open: switched on again, they begin anew."""
    for rule, limit in (
        (UNLIKE_RULE, EVIDENCE),
        (UNCONFIRMED, UNCONFIRMED_RECORDS),
        (ONE_CLUSTER, ONE_CLUSTER_RECORDS),
    ):
        if limits[limit] == 0.0:
            integers[OPEN + rule] = 0
    if limits[EVIDENCE] == 0.0:
        _watches(integers, floats)[1][:, cusum.W] = 0.0
    if limits[NEW_SHARE] == 0.0:
        # Without a threshold every share would be above it.
        integers[YOUNG:COUNTS] = new_state()[0][YOUNG:COUNTS]


def compile() -> None:
    """Compile the kernel, or load it from the cache."""
    clusters: IntArray = np.zeros((1, 1), np.int64)
    novel: BoolArray = np.zeros(1, np.bool_)
    follow(
        clusters,
        novel,
        np.zeros(1),
        np.zeros(1, np.int64),
        0,
        1,
        *new_state(),
        np.ones(LIMITS),
        np.zeros((32, 5), np.int64),
        np.zeros((32, 4)),
    )
