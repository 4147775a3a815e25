"""The drift watch against its specification in plain Python: rows and state to the last bit."""

import json

import numpy as np
import pytest
from resonance.kernels.table import packed

from tests.engine.plain_drift import FIELDS, NUMBERS, PLAIN, RETURN, SHARE, STEPS, PlainDrift
from tests.engine.watched import clusters_at, normal, watched


def stream(seed, d, n=5_120, k=3, lacking=False, **given):
    """Return records about k centres that change in many ways, with clusters that come, go and change their ids."""
    rng = np.random.default_rng(seed)
    centres = rng.random((k, d)) * 4.0
    where = rng.integers(k, size=n)
    X = centres[where] + 0.1 * rng.standard_normal((n, d))
    X[1200:2000, 0] += 0.3 * rng.standard_normal()
    X[2600:3000] = centres[where[2600:3000]] + 0.02 * rng.standard_normal((400, d))
    late = rng.random(n) < 0.5
    late[:3400] = False
    X[late], where[late] = centres[0] + 0.1 * rng.standard_normal((late.sum(), d)), 0
    if d > 1:
        X[:, 1] += 0.2 * np.sin(np.arange(n) / 40.0)
    if d > 2:
        X[:, 2] = 0.25
        X[:, 3] = np.round(X[:, 3], 1)
    X[rng.integers(n, size=40)] *= 1e6
    X[1000:4000:7] = X[999]
    if "leaps" in given:  # A sensor that is noisy, and one that is stuck.
        X[3800:4100, 1] *= 9.0
        X[4200:5600, 0] = 9.0 + 0.04 * (rng.random(1400) - 0.5)
        X[6000:, 0] += 40.0
        for at in (1900, 5700, 6700, 7500):  # Outages.
            X[at : at + 60, : 1 + at % 3] -= 5.0 * (1.0 + rng.random((60, 1)))
    if "relations" in given:  # The second follows from the others, and the hour; later otherwise, and later not at all.
        hour = np.sin(np.arange(n) * 2.0 * np.pi / 144)
        X = 0.1 * rng.standard_normal((n, d)) + 0.3 * hour[:, None] * (np.arange(d) != 2)
        X[:, 1] = 0.5 * X[:, 0] + 0.8 * X[:, 2] + 0.2 * hour + 0.02 * rng.standard_normal(n)
        X[2900:, 1] += 0.2
        X[4200:, 1] += 0.4 * rng.standard_normal(n - 4200)
        if "leaps" not in given:  # A machine that is off by night.
            X[np.arange(n) % 144 >= 104] = -2.0
    if lacking:  # Also all of some records, at first one feature of all, and a lot of late.
        X[rng.random((n, d)) < 0.1] = np.nan
        X[:1000, 0] = X[3000:3010] = X[4500:5500:2, 0] = np.nan
    at, cluster, size, centre = [], [], [], []
    for t in range(512, n + 1, 512):
        for c in range(k if t < 3000 else k - 1):
            at.append(t)
            cluster.append(c + 10 * (t > 2000))
            size.append(int((where[:t] == c).sum()) // 50)
            centre.append(centres[c])
    return {
        "X": X,
        "answer": np.where(rng.random(n) < 0.05, -1, where + 10 * (np.arange(n) > 2000)),
        "offset": np.arange(n) * (600_000 if "relations" in given else 3) + 7,
        "params": json.dumps(given),
        "grain": np.array([0.04, *np.zeros(d - 1)]),
        "cluster_at": np.array(at),
        "cluster_id": np.array(cluster),
        "cluster_size": np.array(size),
        "cluster_centre": np.array(centre),
    }


@pytest.mark.parametrize(
    ("seed", "d", "given"),
    [
        (1, 1, {}),
        (2, 2, {"rarity": 100.0, "hold": 64}),
        (3, 2, {"ordinary": 1, "hold": 64, "step": 1.0}),
        (4, 2, {"cells": 0}),
        (5, 5, {"cells": 2, "rarity": 1e3}),
        (6, 5, {"step": 0.2, "hold": 100, "ordinary": 1}),
        (7, 2, {"ordinary": 5, "returning": 3, "rarity": 1e3}),
        (8, 5, {"step": 0.2, "hold": 100, "returning": 2, "leaps": 1}),
        (9, 2, {"leaps": 1, "rarity": 1e9}),
        (11, 2, {"lacking": True, "hold": 64}),
        (12, 5, {"leaps": 1, "lacking": True, "rarity": 1e3}),
        (13, 4, {"leaps": 1, "relations": 1, "hold": 200}),
        (14, 4, {"relations": 1, "hold": 64, "rarity": 1e3}),
    ],
)
def test_rows_and_state_are_those_of_the_specification(seed, d, given):
    data = stream(seed, d, n=8_192 if "leaps" in given else 5_120, **given)
    plain = PlainDrift(d, **{name: value for name, value in given.items() if name != "lacking"})
    for t, (x, answer, offset) in enumerate(zip(data["X"], data["answer"], data["offset"], strict=True), start=1):
        plain.learn([float(each) for each in x], int(answer), int(offset), data["grain"].tolist())
        if t % 512 == 0:
            plain.look(clusters_at(data, t))
    rows, watch = watched(data)
    expected = normal(np.array([row + [0.0] * (11 - len(row)) for row in plain.rows]))
    np.testing.assert_array_equal(rows, expected)
    assert len({row[0] for row in plain.rows}) == 3
    state = watch._state
    arrays = packed(state)
    assert arrays["head"].tolist() == [
        *(plain.t, plain.opened, plain.start, plain.seq, len(plain.centres), plain.rebuild),
        *(plain.moved, plain.rates, plain.gone, plain.next, plain.steady, plain.outages),
        *(plain.known.paired, plain.known.refit, plain.still, plain.before[0], plain.named, plain.apart),
    ]
    if plain.rest is not None:
        known = plain.known
        np.testing.assert_array_equal(arrays["weight"], known.weight)
        rows = [
            known.level,
            known.low,
            known.high,
            known.width,
            known.sums,
            plain.before[1],
            known.least,
            known.resting,
            known.rest,
            known.at,
            known.scale,
        ]
        np.testing.assert_array_equal(arrays["relation"], np.transpose(rows))
        assert any(row[:3] == [2, row[1], -1] for row in plain.rows)
    for k, unit in enumerate(plain.every):
        channel = np.array([[float(getattr(c, name)) for c in unit.channels] for name in FIELDS])
        np.testing.assert_array_equal(arrays["channel"][k], channel)
        np.testing.assert_array_equal(arrays["return"][k], [float(getattr(unit.back, name)) for name in RETURN])
        plainly = [[float(getattr(c, name)) for c in unit.channels] for name in PLAIN]
        np.testing.assert_array_equal(arrays["plain"][k], plainly)
    if "leaps" in given:
        steps = [[getattr(c, name) for c in plain.steps] for name in STEPS]
        np.testing.assert_array_equal(arrays["steps"], np.transpose(steps))
        assert "relations" in given or any(row[0] == 3 and row[3] == 2 for row in plain.rows)
        if k:
            np.testing.assert_array_equal(arrays["share"][k], [float(getattr(unit.share, name)) for name in SHARE])
            assert arrays["number"][k].tolist() == [int(getattr(unit.number, name)) for name in NUMBERS]
        np.testing.assert_array_equal(state.mark[k], unit.marks)
