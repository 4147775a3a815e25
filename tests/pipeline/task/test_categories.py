"""Records that are equal in categories, flags or zeros: each combination that separates a kind is a cluster."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tests.pipeline.streams import named_records, payloads, plain_settings, run, task

KINDS = [("tcp", "SF", "80"), ("tcp", "S0", "6667"), ("udp", "SF", "53"), ("tcp", "SF", "6667"), ("tcp", "REJ", "80")]
CATEGORIES = {"proto": ["tcp", "udp"], "state": ["SF", "S0", "REJ"], "port": ["80", "6667", "53"]}


def combinations(rng, kind):
    return [KINDS[k] for k in kind]


def with_a_number(rng, kind):
    """Add a number that says little of the kind."""
    return [(*KINDS[k], x) for k, x in zip(kind, rng.normal(kind % 2, 2.0).tolist(), strict=True)]


def flows(rng, kind):
    """Add duration, bytes each way and packets of connections; those of two kinds have none."""
    logs = np.array([[0, 6, 9, 3], [-9, -9, -9, 0], [-4, 4, 5, 0.7], [4, 7, 7, 5], [-9, -9, -9, 0]])[kind]
    width = np.array([[1.2, 0.8, 1.3, 0.5], [0] * 4, [0.5, 0.2, 0.3, 0], [1, 0.6, 0.6, 0.5], [0] * 4])[kind]
    numbers = np.floor(np.exp(logs + width * rng.normal(size=logs.shape)) * 1e3) / 1e3
    return [(*KINDS[k], *row) for k, row in zip(kind, np.where(logs > -9, numbers, 0.0).tolist(), strict=True)]


def flags(rng, kind):
    """Return four flags, of which no two go together."""
    return [([1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0])[k % 4] for k in kind]


@pytest.mark.parametrize(
    ("make", "kinds", "least"), [(combinations, 3, 1.0), (with_a_number, 3, 0.95), (flows, 5, 0.95), (flags, 4, 1.0)]
)
def test_each_kind_is_a_cluster(make, kinds, least):
    rng, n = np.random.default_rng(0), 6_000
    kind = rng.integers(kinds, size=n)
    rows = make(rng, kind)
    names = [*CATEGORIES, "duration", "sent", "received", "packets"] if make is not flags else list("abcd")
    names = names[: len(rows[0])]
    categories = {"prepare__categories": CATEGORIES} if make is not flags else {}
    worker = task(plain_settings(stream="topic", input__features=names, **categories))
    answers = payloads(run(worker, named_records(rows, names, gap=1), 500).assignments)
    late = [str(answer["cluster"]) for answer in answers[n // 2 :]]
    assert adjusted_rand_score(kind[-len(late) :], late) >= least
    (model,) = worker.models
    assert len(model.engine.clusters()) == kinds
    # They are spread a little, which a centre does not show.
    centres = np.array([model.preparation.describe(each).centre for each in model.engine.clusters()])
    assert centres[:, :2] == pytest.approx(np.rint(centres[:, :2]), abs=1e-5)
