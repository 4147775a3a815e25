"""Rules on the answers of one stream: unlike, new cluster, one cluster, unconfirmed.

A record is *unlike* if it is novel, has no cluster, or is unusual by its score, and *far* if its score is low. Such
records are watched by a CUSUM of log likelihood ratios, of the stream's own long-run share against a far higher one.
Unlike records come in bursts, so the threshold is inflated by the ratio of long-run variance to variance, measured on
blocks of the stream.

The state of a stream is an array of integers and one of floats; all of it is a function of the answers alone, however
they are cut into batches.
"""

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray
from resonance.kernels.arithmetic import jit, log

# Integers of the state.
N = 0  # answers so far
NONE = 1  # answers without a cluster, less 16 for each one with a cluster
SETTLED = 2  # answers since the first one with a cluster
IN_BLOCK = 3  # answers of the present block
UNLIKE = 4  # unlike records of the present block
BLOCKS = 5  # blocks of the baseline
LAST = 6  # unlike records of the last block of the baseline
RUN = 7  # answers since the CUSUM left 0
RUN_UNLIKE = 8  # unlike records among them
LARGEST = 9  # the cluster that may take nearly everything
LARGEST_RUN = 10  # its records, less `limits[PENALTY]` for each other record
OPEN = 11  # whether each of the rules of a stream is open: 3 integers
BEGAN = 14  # time at which what the run is about began, in milliseconds since 1970
YOUNG = 15  # the new clusters: 8 times id, answers since it emerged, whether its alert is open, `BEGAN` when it emerged
OF_YOUNG = 4
YOUNG_CLUSTERS = 8
INTEGERS = YOUNG + OF_YOUNG * YOUNG_CLUSTERS

UNKNOWN = -(1 << 62)
"""The time of a record where it is not known."""

# Floats of the state.
W = 0  # the CUSUM
MEAN = 1  # mean of the unlike records of a block
SQUARE = 2  # mean of their square
CROSS = 3  # mean of the product of two blocks in a row
HIT = 4  # log likelihood ratio of an unlike record
MISS = 5  # of another record
HOLD = 6  # threshold of the CUSUM; 0 while it is not watched
NOW = 7  # recent share of unlike records
SHARE = 8  # recent share of each new cluster: 8 floats
FAR_HIT = SHARE + YOUNG_CLUSTERS  # log likelihood ratio of a far record
FLOATS = FAR_HIT + 1

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

BLOCK = 32
"""Records of a block."""

SETTLE = 64
"""Records after the first one with a cluster that a model founds its nodes with: no baseline yet."""

BURST = 2.0
"""Unlike records of a block that count at most, beside twice the mean."""

LASTS = 1024
"""Records that are not unlike among suspicious ones, after which these become usual."""

FIRST_BLOCKS = 4
"""Blocks from which on a stream has a baseline."""

MEMORY = 256
"""Blocks that a baseline averages."""

RARE = 0.01
"""A stream counts as having at least this share of unlike records."""

FAR_RARE = 0.002
"""The same of far ones, which are no more than all."""

FAR = 0.2
"""A record is far below this score: twice as far from what its cluster has as an unlike one at least is."""

AFRESH = 0.5
"""Part of what an unlike record says: where less of a single one is left, the run is about what the next one begins."""

COMMON = 0.4
"""Beyond this usual share nothing is far beyond it: the rule rests."""

NOVEL_RECORDS = 80.0
"""Records, all of them unlike, that open the rule whatever the dependence is."""

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
    integers[YOUNG::OF_YOUNG] = integers[LARGEST] = -1
    integers[BEGAN] = UNKNOWN
    return integers, np.zeros(FLOATS)


@jit
def _rebase(integers, floats, limits):
    """Derive the likelihood ratios and the threshold from the baseline."""
    blocks = min(integers[BLOCKS], MEMORY)
    n = blocks * BLOCK
    share = floats[MEAN] / BLOCK
    # Of a few records alone no dependence shows.
    variance = BLOCK * max(share * (1.0 - share), FAR_RARE)
    # A young baseline has seen few bursts, or none.
    inflation = 1.0 + 32.0 / blocks
    between = floats[SQUARE] - floats[MEAN] * floats[MEAN]
    if between > 0.0:
        r = min(max((floats[CROSS] - floats[MEAN] * floats[MEAN]) / between, 0.0), 0.9)
        inflation = max(between / variance * ((1.0 + r) / (1.0 - r)), inflation)
    usual = share + 3.0 * np.sqrt(inflation * share * (1.0 - share) / n) + 1.0 / n
    if usual > COMMON:
        floats[HOLD] = 0.0
        floats[W] = 0.0
        return
    far = log(0.5 / max(usual, FAR_RARE))
    usual = max(usual, RARE)
    high = max(0.5, 8.0 * usual / (1.0 - usual + 8.0 * usual))
    floats[HIT] = log(high / usual)
    floats[MISS] = log((1.0 - high) / (1.0 - usual))
    evidence = limits[EVIDENCE]
    floats[FAR_HIT] = max(far, floats[HIT])
    floats[HOLD] = max(evidence, min(evidence * inflation, NOVEL_RECORDS * floats[HIT]))


@jit
def _end_block(integers, floats, limits):
    """Add the present block to the baseline."""
    # A burst, in the first blocks say, is not what bursts usually are.
    count = min(integers[UNLIKE], np.int64(BURST + 2.0 * floats[MEAN]))
    integers[IN_BLOCK] = 0
    integers[UNLIKE] = 0
    integers[BLOCKS] += 1
    blocks = integers[BLOCKS]
    weight = 1.0 / min(blocks, MEMORY)
    floats[MEAN] += (count - floats[MEAN]) * weight
    floats[SQUARE] += (count * count - floats[SQUARE]) * weight
    if blocks > 1:
        floats[CROSS] += (count * integers[LAST] - floats[CROSS]) * (1.0 / min(blocks - 1, MEMORY))
    integers[LAST] = count
    if blocks >= FIRST_BLOCKS and (blocks < 64 or blocks % 16 == 0):
        _rebase(integers, floats, limits)


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
    any_young = False
    for j in range(YOUNG, INTEGERS, OF_YOUNG):
        any_young = any_young or integers[j] >= 0
    for i in range(start, stop):
        if found > room:
            return found, i
        cluster = clusters[i, 0]
        integers[N] += 1
        unlike = 1 if novel[i] or cluster < 0 or scores[i] < limits[UNUSUAL] else 0
        floats[NOW] += (unlike - floats[NOW]) / min(integers[N], RECENT)
        # A new cluster is one of records that are unlike beyond the usual share, so that rule needs it too.
        if (limits[EVIDENCE] > 0.0 or limits[NEW_SHARE] > 0.0) and (integers[SETTLED] > 0 or cluster >= 0):
            integers[SETTLED] += 1
            if integers[SETTLED] > SETTLE:
                if limits[EVIDENCE] > 0.0 and (floats[HOLD] > 0.0 or integers[OPEN + UNLIKE_RULE] == 1):
                    w = floats[W]
                    if w == 0.0:
                        integers[RUN] = 0
                        integers[RUN_UNLIKE] = 0
                    if w == 0.0 or (unlike == 1 and integers[RUN_UNLIKE] == 1 and w < AFRESH * floats[HIT]):
                        integers[BEGAN] = times[i]
                    integers[RUN] += 1
                    integers[RUN_UNLIKE] += unlike
                    hit = floats[FAR_HIT] if scores[i] < FAR else floats[HIT]
                    w = max(w + (hit if unlike == 1 else floats[MISS]), 0.0)
                    hold = floats[HOLD]
                    if integers[OPEN + UNLIKE_RULE] == 0:
                        if w >= hold:
                            integers[OPEN + UNLIKE_RULE] = 1
                            found = _put(
                                out, numbers, found, i, UNLIKE_RULE, 1, -1,
                                float(integers[RUN]), float(integers[RUN_UNLIKE]), floats[MEAN] / BLOCK,
                                0.0 if novel[i] or cluster < 0 else 1.0, integers[BEGAN],
                            )  # fmt: skip
                    elif w <= 0.25 * hold or hold == 0.0:
                        integers[OPEN + UNLIKE_RULE] = 0
                        w = 0.0
                        found = _put(
                            out, numbers, found, i, UNLIKE_RULE, 0, -1,
                            float(integers[RUN]), float(integers[RUN_UNLIKE]), floats[MEAN] / BLOCK,
                        )  # fmt: skip
                    # Without this bound an alert that was open for long would take as long to clear.
                    floats[W] = min(w, hold)
                integers[UNLIKE] += unlike
                integers[IN_BLOCK] += 1
                is_suspicious = integers[OPEN + UNLIKE_RULE] == 1 or floats[W] > 0.5 * limits[EVIDENCE]
                if is_suspicious and integers[RUN] - integers[RUN_UNLIKE] <= LASTS:
                    # What is suspicious is no baseline before it has lasted: a block begins anew behind it.
                    integers[UNLIKE] = 0
                    integers[IN_BLOCK] = 0
                if integers[IN_BLOCK] == BLOCK:
                    _end_block(integers, floats, limits)
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
    if integers[N] < STARTED or floats[NOW] < floats[MEAN] / BLOCK + EXCESS:
        return
    places = integers[YOUNG:].reshape(-1, OF_YOUNG)
    free = [k for k in range(YOUNG_CLUSTERS) if places[k, 0] < 0]
    rest = sorted((k for k in range(YOUNG_CLUSTERS) if not places[k, 2]), key=lambda k: (-int(places[k, 1]), k))
    if chosen := (free or rest)[:1]:
        # A long run is of more than this cluster.
        is_its_run = floats[W] > 0.0 and integers[RUN] <= RECENT
        places[chosen[0]] = cluster, 0, 0, integers[BEGAN] if is_its_run else UNKNOWN
        floats[SHARE + chosen[0]] = 0.0


def ended(integers: IntArray, floats: FloatArray, cluster: int) -> bool:
    """Note that a cluster ended; return whether its alert was open."""
    places = integers[YOUNG:].reshape(-1, OF_YOUNG)
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
        floats[W] = 0.0
    if limits[NEW_SHARE] == 0.0:
        # Without a threshold every share would be above it.
        integers[YOUNG:] = new_state()[0][YOUNG:]


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
