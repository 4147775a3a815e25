"""The rules on the answers of a stream: each transition has its row, its evidence by name, and its cluster as text."""

from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from resonance.engine.base import Event
from resonance.engine.prepare import Preparation
from resonance.pipeline.task.alerts import rules as alert_rules
from resonance.pipeline.task.alerts.open_alerts import OpenAlerts, StreamAlerts
from resonance.pipeline.task.alerts.rules import ROOM, AnswerRules, DeadLetterShare, drift_transitions
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_drift import Marks

from tests.pipeline.task.alerts.devices import DRIFT

TEXTS = StreamTexts("p0", 3, 1)
PREPARATION = Preparation(["a"])
EVIDENCE = 12.0
ROWS = np.zeros((10_000, 1))


@pytest.fixture(autouse=True)
def _few_records(monkeypatch):
    monkeypatch.setattr(alert_rules, "UNCONFIRMED_RECORDS", 100)
    monkeypatch.setattr(alert_rules, "ONE_CLUSTER_RECORDS", 200)


def rules(*on):
    return AnswerRules(on, EVIDENCE)


def result(clusters, novel=None, learned=None, events=()):
    """What became of rows whose answers have these clusters; `learned` are their places."""
    clusters = np.array(clusters).reshape(-1, 1)
    novel = np.zeros(len(clusters), np.bool_) if novel is None else np.array(novel)
    places = range(len(clusters)) if learned is None else learned
    return LearnResult(
        learned=places,
        step=SimpleNamespace(cluster=clusters, novel=novel, score=np.where(novel, 0.4, 0.9), outside=None),
        events=list(events),
        marks=Marks.numbered(1_000),
    )


def event(kind, cluster, path=()):
    return Event(0, kind, path, 0, cluster, None, (), ())


def found(own, alerts, *results):
    each = (transition for one in results for transition in own.transitions(alerts, ROWS, one, TEXTS, PREPARATION))
    return [(at, one.rule, one.opened, one.cluster) for at, one in each]


def test_a_transition_has_the_place_of_its_row_and_its_numbers_by_name():
    own = rules("unconfirmed")
    # Every second record belongs to another stream.
    ((at, opened),) = own.transitions(
        StreamAlerts(), ROWS, result([-1] * 150, learned=range(1, 300, 2)), TEXTS, PREPARATION
    )
    assert (at, opened.rule, opened.opened, opened.cluster) == (199, "unconfirmed", True, None)
    assert opened.evidence == {"answers": 100.0, "records": 100.0}


def test_the_cluster_that_takes_nearly_all_is_named_as_the_outputs_name_it():
    given = result([4] * 300)
    assert found(rules(), StreamAlerts(), given) == []
    # The first record only says which one it may be.
    own = rules("one_cluster")
    assert found(own, StreamAlerts(), given) == [(200, "one_cluster", True, "p0/3/4")]


def new_cluster(kinds=(("emerged", 1, 1_129), ("vanished", 1, 1_300))):
    """A stream of one cluster, then novel records of which another one is made; it ends later."""
    clusters, novel = np.zeros(1_400, np.int64), np.zeros(1_400, np.bool_)
    clusters[1_100:1_130], novel[1_100:1_130] = -1, True
    clusters[1_130:] = 1
    return clusters, novel, [(at, event(kind, cluster)) for kind, cluster, at in kinds]


def test_a_cluster_is_new_from_the_record_on_that_made_it_until_it_ends():
    own, alerts = rules("new_cluster"), StreamAlerts()
    clusters, novel, events = new_cluster()
    transitions = own.transitions(alerts, ROWS, result(clusters, novel, events=events), TEXTS, PREPARATION)
    assert [(at, one.rule, one.opened, one.cluster) for at, one in transitions] == [
        (1_193, "new_cluster", True, "p0/3/1"),
        (1_300, "new_cluster", False, "p0/3/1"),
    ]
    (_, opened), (_, cleared) = transitions
    assert opened.evidence == {"records": 64.0, "share": 1.0, "threshold": 0.1}
    assert cleared.evidence == {}


def test_clusters_below_a_node_that_split_or_of_a_rule_that_is_off_are_no_new_ones():
    clusters, novel, events = new_cluster()
    below = [(at, event(each.kind, each.cluster, path=(0,))) for at, each in events]
    split = [(1_129, event("split", 1))]
    for own, given in ((rules("new_cluster"), below), (rules("new_cluster"), split), (rules(), events)):
        assert found(own, StreamAlerts(), result(clusters, novel, events=given)) == []


def test_more_transitions_than_the_kernel_returns_at_once_are_all_there():
    own = rules("unconfirmed")
    # It opens after 100 records without a cluster, and four with one clear it.
    each = found(own, StreamAlerts(), result(([-1] * 100 + [0] * 7) * ROOM))
    assert len(each) == 2 * ROOM
    assert [opened for _, _, opened, _ in each] == [True, False] * ROOM


def test_late_labels_cause_events_without_answers():
    own, alerts = rules("new_cluster"), StreamAlerts()
    clusters, novel, events = new_cluster()
    assert len(found(own, alerts, result(clusters[:1_250], novel[:1_250], events=events[:1]))) == 1
    late = LearnResult(events=[(0, event("absorbed", 1))])
    assert found(own, alerts, late) == [(0, "new_cluster", False, "p0/3/1")]


def test_a_rule_that_is_switched_off_forgets_what_it_had_open():
    alerts, given = StreamAlerts(), result([-1] * 150)
    own = rules("unconfirmed")
    assert len(found(own, alerts, given)) == 1
    rules().switch_off(alerts)
    own.switch_off(alerts)
    assert len(found(own, alerts, given)) == 1


def test_the_rules_on_drift_are_switched_one_by_one():
    for share, drift_open in ((True, False), (False, True)):
        on = {"share": share, "drift_open": drift_open}
        found = drift_transitions(OpenAlerts(), DRIFT, str, [rule for rule, wanted in on.items() if wanted])
        assert {one.rule for one in found} == ({"share"} if share else {"drift_open"})


def test_dead_letters_open_beyond_the_share_and_clear_at_half_of_it():
    records = np.arange(400)
    dead = [*range(100, 130, 2), *range(300, 306)]
    whole = DeadLetterShare(100, 0.1).take(records, dead)
    assert whole == [(120, True, 11), (218, False, 5)]
    share = DeadLetterShare(100, 0.1)
    found = []
    for start in range(0, 400, 7):
        part = records[start : start + 7]
        found += [
            (start + at, *rest) for at, *rest in share.take(part, [d - start for d in dead if 0 <= d - start < 7])
        ]
        fresh = DeadLetterShare(100, 0.1)
        fresh.restore(orjson.loads(orjson.dumps(share.state())))
        assert fresh.take(part, []) == []
        share = fresh
    assert found == whole


def test_an_open_share_of_dead_letters_clears_in_a_smaller_window_without_any():
    records = np.arange(400)
    wide, narrow = DeadLetterShare(100, 0.1), DeadLetterShare(20, 0.1)
    assert wide.take(records[:150], range(100, 115)) == [(110, True, 11)]
    narrow.restore(wide.state())
    assert narrow.take(records[150:160], []) == [(0, False, 0)]
