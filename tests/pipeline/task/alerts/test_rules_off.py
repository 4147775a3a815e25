"""Rules that are switched off, and what is open where a task begins anew: alerts clear, and numbers go on."""

from typing import Any, get_args

import numpy as np
import orjson
import pytest
from resonance.pipeline.records import Record
from resonance.pipeline.task.alerts.kernels import stream_rules
from resonance.schemas import AlertRule

from tests.pipeline.streams import STAMP, TOPIC, Held, payloads, run, task, value_of
from tests.pipeline.task.alerts.devices import CUT, LOG, alerts_of, devices, given, go_on


def switched_off():
    """A task that goes on without the rule `unlike` while an alert of it is open."""
    held = Held(task(given()))
    held.task.process(LOG[:CUT])
    go_on(held, CUT, alerts__off=("unlike",))
    return held


def test_what_is_owed_comes_with_the_next_record_even_if_that_is_of_no_use():
    held = switched_off()
    spoiled = [record._replace(value=b"{") for record in LOG[CUT : CUT + 3]]
    cleared, *others = payloads(held.task.process(spoiled).alerts)
    assert (cleared["kind"], cleared["rule"], others) == ("cleared", "unlike", [])
    assert cleared["cause"] == {"id": None, "source": {"topic": TOPIC, "partition": 0, "offset": LOG[CUT].offset}}


def test_records_learned_silently_raise_nothing_and_what_is_open_then_is_emitted():
    worker = task(given())
    worker.catch_up(LOG[:CUT])
    worker.announce()
    assert (worker.health.open_alerts["unlike"], worker.health.alerts) == (1, {})
    outputs = worker.process(LOG[CUT:])
    assert worker.health.alerts == {"unlike": 1}
    assert alerts_of(outputs) == [("opened", "unlike", "p0:d3"), ("cleared", "unlike", "p0:d3")]
    opened, cleared = payloads(outputs.alerts)
    assert opened["cause"]["source"]["offset"] == LOG[CUT].offset
    assert opened["since"] < opened["time"]
    assert (opened["seq"], cleared["seq"]) == (1, 2)
    # A restart behind that record does not emit it again.
    held = Held(task(given()))
    held.task.catch_up(LOG[:CUT])
    held.task.announce()
    held.task.process(LOG[CUT : CUT + 5])
    go_on(held, CUT + 5)
    assert alerts_of(held.task.process(LOG[CUT + 5 :])) == [("cleared", "unlike", "p0:d3")]


def test_a_new_version_clears_what_was_open_though_its_stream_has_no_record_any_more():
    rest = [record for record in LOG[CUT:] if record.key != b"d3"]
    worker = task(given())
    worker.process(LOG[:CUT])
    snapshots, state = list(worker.models.states()), worker.partition_state()
    found = []
    for size in (1, len(rest)):
        fresh = task(given(engine__memory=5001))
        fresh.restore_partition(state)
        for snapshot in snapshots:
            fresh.restore(snapshot, new_version=True)
        found.append(run(fresh, rest, size).alerts)
        cleared, *_ = payloads(found[-1])
        assert (cleared["kind"], cleared["rule"], cleared["stream"]) == ("cleared", "unlike", "p0:d3")
        assert (cleared["version"], cleared["evidence"]) == (1, {"ended": 1.0})
        assert cleared["cause"]["source"]["offset"] == rest[0].offset
        # The stream's next snapshot no longer has it open.
        assert "p0:d3" in fresh.models.pending(everything=True)
    assert found[0] == found[1]


OFF: dict[str, Any] = {"alerts__off": get_args(AlertRule)}


def test_without_rules_there_are_no_alerts_and_no_state():
    worker = task(given(**OFF))
    assert run(worker, LOG[:500]).alerts == []
    assert worker.models.named("p0:d1").alerts is None
    assert "alerts" not in orjson.loads(worker.partition_state())


def test_where_every_rule_is_switched_off_nothing_is_written_and_the_numbers_go_on():
    held, seconds = Held(task(given())), LOG[CUT].timestamp
    assert held.task.process(LOG[:CUT]).alerts
    go_on(held, CUT, **OFF)
    assert not held.task.process(LOG[CUT : CUT + 40]).alerts
    assert (held.task.open_alerts, held.task.health.open_alerts["unlike"]) == (set(), 0)
    go_on(held, CUT + 40)
    again = devices(rounds=900, broken=700, seed=1)
    later = [one._replace(offset=one.offset + 10_000, timestamp=one.timestamp + seconds) for one in again]
    opened = next(one for one in payloads(run(held.task, later).alerts) if one["stream"] == "p0:d3")
    assert (opened["kind"], opened["seq"]) == ("opened", 2)
    assert opened["key"].endswith("/p0:d3/1/1")


def test_a_rule_that_was_switched_off_after_a_crash_clears_its_alert():
    held = Held(task(given()))
    held.task.process(LOG[:CUT])
    held.write(held.task.models.pending(everything=True), LOG[CUT - 1].offset + 1)
    # Committed without snapshots: the new start learns these records again in silence.
    held.task.process(LOG[CUT : CUT + 20])
    held.read = CUT + 20
    held.restore(task(given(alerts__off=("unlike",))), LOG)
    cleared, *others = payloads(held.task.process(LOG[CUT + 20 :]).alerts)
    assert (cleared["kind"], cleared["rule"], others) == ("cleared", "unlike", [])
    assert cleared["cause"]["source"]["offset"] == LOG[CUT + 20].offset


def test_a_rule_that_was_off_for_a_while_knows_nothing_of_the_time_before():
    held = Held(task(given()))
    held.task.process(LOG[:1_900])
    go_on(held, 1_900, alerts__off=("silent", "unlike"))
    held.task.process(LOG[1_900:2_900])
    go_on(held, 2_900)
    # For the records that were learned without the rule no stream was silent.
    assert alerts_of(held.task.process(LOG[2_900:])) == []


def test_young_clusters_open_nothing_where_the_rule_on_them_was_switched_off():
    held = Held(task(given()))
    held.task.process(LOG[:900])
    alerts = held.task.models.named("p0:d2").alerts
    alerts.integers[stream_rules.YOUNG : stream_rules.YOUNG + 4] = 0, 10, 0, 0
    go_on(held, 900, alerts__off=("new_cluster",))
    assert "new_cluster" not in {rule for _, rule, _ in alerts_of(held.task.process(LOG[900:]))}


@pytest.mark.parametrize("changes", [{"drift__rarity": 1e9}, {"drift__detect": False}])
def test_the_alerts_of_a_drift_clear_where_the_watch_begins_anew(changes):
    held, rng = Held(task(given(stream="partition"))), np.random.default_rng(1)
    rows = 5.0 + rng.normal(size=(2_400, 3))
    rows[1_800:] += 2.5
    log = [Record(TOPIC, 0, i, STAMP + 1_000 * i, None, value_of(row)) for i, row in enumerate(rows.tolist())]
    opened = [alert for alert in alerts_of(held.task.process(log[:2_000])) if alert[1] == "drift_open"]
    assert opened == [("opened", "drift_open", "p0")]
    held.read = 2_000
    held.write(held.task.models.pending(everything=True), 2_000)
    same = Held(held.task)
    same.read, same.snapshots, same.state, same.recovery_offset = 2_000, held.snapshots, held.state, 2_000
    same.restore(task(given(stream="partition")), log)
    held.restore(task(given(stream="partition", **changes)), log)
    assert "drift_open" not in {rule for _, rule, _ in alerts_of(same.task.process(log[2_000:2_010]))}
    found = payloads(held.task.process(log[2_000:2_010]).alerts)
    cleared = [one for one in found if one["rule"] == "drift_open"]
    assert [(one["kind"], one["cause"]["source"]["offset"]) for one in cleared] == [("cleared", 2_000)]
