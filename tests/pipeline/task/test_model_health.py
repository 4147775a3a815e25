"""The figures of a partition's models, against a reckoning record by record."""

from types import SimpleNamespace

import numpy as np
import pytest
from resonance.engine.base import Event, Step
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model_health import Figures, ModelHealth


def model(name="p0", clusters=(), compared=0, outside=0):
    return SimpleNamespace(
        name=name,
        preparation=SimpleNamespace(compared=compared, outside=outside),
        engine=SimpleNamespace(clusters=lambda: list(clusters)),
    )


def event(index, kind, cluster, other=None, path=()):
    return Event(index, kind, path, 0, cluster, other, (), ())


def result(rows, events=()):
    """Answers (node, cluster) or (node, cluster, novel, score)."""
    rows = [(*row, False, 0.5)[:4] if len(row) == 2 else row for row in rows]
    nodes, clusters, novel, scores = zip(*rows, strict=True)
    step = Step(
        np.array(clusters).reshape(-1, 1),
        np.array(scores, dtype=float),
        np.array(novel, dtype=bool),
        np.array(nodes).reshape(-1, 1),
        list(events),
    )
    return LearnResult((), range(len(rows)), step, [(each.index, each) for each in events])


def churn(*batches, window=10_000):
    health = ModelHealth(window)
    for batch in batches:
        health.learned(model(), batch, emitted=True)
    return health.figures().churn


def test_nothing_is_said_of_nothing():
    health = ModelHealth()
    assert health.figures() == Figures()
    health.learned(model(), LearnResult(warming=range(3)), emitted=True)
    assert health.figures() == Figures()


def test_the_figures_of_a_window():
    health = ModelHealth(4)
    health.learned(model(compared=10, outside=10), result([(0, 0, True, np.nan)] * 5), emitted=True)
    health.figures()
    later = [(1, 7, True, 1.0), (1, 7, False, 0.5), (2, 8, False, 0.0), (3, -1, False, np.nan)]
    health.learned(model(compared=30, outside=15), result(later), emitted=True)
    assert health.figures() == Figures(4, 0.25, 2 / 3, 0.5, 0.25, None)


def test_the_largest_cluster_is_each_streams_own():
    health = ModelHealth()
    health.learned(model("a"), result([(0, 0)] * 3 + [(1, 1)]), emitted=True)
    health.learned(model("b"), result([(0, 0)] * 2 + [(1, 5)] * 4), emitted=True)
    assert health.figures().largest_cluster == pytest.approx(7 / 10)


def test_a_node_that_changes_its_cluster_without_an_event_churns():
    assert churn(result([(0, 1), (1, 2)]), result([(1, 2), (0, 1)])) == 0.0
    assert churn(result([(0, 1), (1, 2)]), result([(1, 2), (0, 2)])) == 0.5
    assert churn(result([(0, 1), (0, -1)])) == 1.0
    # A first cluster is no change.
    assert (churn(result([(0, -1), (0, 1), (0, 1)])), churn(result([(0, 3, True, 0.1), (0, 1)]))) == (0.0, None)


@pytest.mark.parametrize(
    ("emitted", "after"),
    [
        *(([event(0, "absorbed", 1, 2)], 2), ([event(0, "split", 5, 1)], 5), ([event(0, "split", 5, 1)], 1)),
        ([event(0, "vanished", 1)], -1),
        ([event(0, "absorbed", 1, 2), event(0, "split", 6, 2), event(0, "absorbed", 6, 3)], 3),
    ],
)
def test_what_an_event_reports_is_no_churn(emitted, after):
    assert churn(result([(0, 1)], emitted), result([(0, after)])) == 0.0
    # The record that caused the event was answered before it: no event reported what changed at once.
    assert churn(result([(0, 1), (0, after)], [event(1, *(e.kind, e.cluster, e.other)) for e in emitted])) == (
        after != 1
    )


def test_events_of_deeper_levels_and_of_other_streams_explain_nothing():
    assert churn(result([(0, 1)], [event(0, "absorbed", 1, 2, path=(0,))]), result([(0, 2)])) == 1.0
    health = ModelHealth()
    health.learned(model("a"), result([(0, 1)]), emitted=True)
    health.learned(model("b"), result([(0, 1)], [event(0, "absorbed", 1, 2)]), emitted=True)
    health.learned(model("a"), result([(0, 2)]), emitted=True)
    assert health.figures().churn == 1.0


def test_a_split_before_the_earlier_answer_explains_nothing():
    assert churn(result([(9, 9)], [event(0, "split", 5, 1)]), result([(0, 1), (0, 5)])) == 1.0


def test_what_the_window_has_left_behind_is_forgotten():
    assert churn(result([(0, 1)]), result([(1, 1)] * 300), result([(0, 2)]), window=100) == 0.0
    assert churn(result([(0, 1)]), result([(1, 1)] * 98), result([(0, 2)]), window=100) == pytest.approx(1 / 98)


def test_how_records_are_grouped_makes_no_difference():
    rng = np.random.default_rng(3)
    rows = list(zip(rng.integers(0, 6, 900).tolist(), rng.integers(-1, 4, 900).tolist(), strict=True))
    kinds = [event(int(i), "split", int(a), int(b)) for i, a, b in rng.integers(0, [900, 4, 4], (40, 3))]
    kinds.sort(key=lambda each: each.index)

    def run(size, window):
        health = ModelHealth(window)
        for start in range(0, 900, size):
            own = [e for e in kinds if start <= e.index < start + size]
            own = [event(e.index - start, e.kind, e.cluster, e.other) for e in own]
            health.learned(model(), result(rows[start : start + size], own), emitted=True)
        return health.figures()

    for window in (10_000, 500):
        assert run(900, window) == run(7, window) == run(1, window) == run(300, window)
        assert run(1, window).churn == pytest.approx(one_by_one(rows, kinds, window))


def one_by_one(rows, events, window):
    """Churn as the definition says it."""
    last, churned, counted = {}, 0, 0
    for i in range(len(rows) - window if len(rows) > window else 0, len(rows)):
        node, cluster = rows[i]
        before = last.get(node)
        if before is not None and before[1] >= 0:
            heirs = {before[1]}
            for e in events:
                if before[0] <= e.index < i and e.other in heirs:
                    heirs.add(e.cluster)
            counted += 1
            churned += cluster not in heirs
        last[node] = (i, cluster)
    return churned / counted


def test_clusters_and_emitted_events_are_counted():
    health = ModelHealth()
    health.restored(model("a", clusters=[1, 2], compared=100, outside=50))
    events = [event(0, "emerged", 3), event(0, "split", 4, 3, path=(1,)), event(0, "absorbed", 1, 2)]
    health.learned(model("a", compared=110, outside=51), result([(0, 1)], events), emitted=True)
    assert (health.clusters, health.events) == (3, {"emerged": 1, "split": 1, "absorbed": 1})
    assert health.figures().out_of_scale == pytest.approx(0.1)
    health.learned(model("a", compared=110, outside=51), result([(0, 1)], [event(0, "vanished", 2)]), emitted=False)
    assert (health.clusters, sum(health.events.values())) == (2, 3)
