"""The past of a stream is that of its stored events, whatever time was looked at before."""

import random

import orjson
import pytest
from resonance.pipeline.page import answers
from resonance.pipeline.page.answers import UnknownNameError
from resonance.pipeline.page.past import StreamPast
from resonance.pipeline.page.view import DeploymentView
from resonance.pipeline.timestamps import epoch_ms

from tests.pipeline.page import outputs


def moment(second):
    return epoch_ms(outputs.time_of(second))


def past_of(*values):
    past = StreamPast("p0")
    past.extend(("drift" if "detector" in value else "events", outputs.record(value)) for value in values)
    return past


def life(seed, steps=300):
    """Events of clusters that emerge, split, are absorbed and vanish at random."""
    choose, present, values, number = random.Random(seed), [], [], 0
    for second in range(steps):
        kind = choose.choice(["emerged", "split", "absorbed", "vanished"]) if len(present) > 2 else "emerged"
        if kind in ("emerged", "split"):
            name, other = f"p0/1/{number}", choose.choice(present) if kind == "split" else None
            number += 1
            present.append(name)
        else:
            name = present.pop(choose.randrange(len(present)))
            other = choose.choice(present) if kind == "absorbed" else None
        values.append(outputs.event(kind, name, second, second, other))
        values[-1]["now"] = sorted(present)
        if second % 7 == 0:
            values.append(outputs.drift("drift", present[0], second, second))
    return values


@pytest.mark.parametrize("seed", range(5))
def test_at_every_time_the_clusters_are_those_of_the_events_up_to_then(seed):
    values, now = life(seed), DeploymentView("shop")
    past = past_of(*values)
    events = [value for value in values if "now" in value]
    order = list(range(len(events)))
    random.Random(seed).shuffle(order)
    for second in order[:60]:
        shown = past.at(moment(second), now).streams["p0"]
        assert sorted(shown.clusters) == events[second]["now"]
        born = {event["cluster"]: event["time"] for event in events if event["kind"] in ("emerged", "split")}
        assert {name: each.since for name, each in shown.clusters.items()} == {n: born[n] for n in shown.clusters}
        ends = [event for event in events[: second + 1] if event["kind"] in ("absorbed", "vanished")]
        assert [each.id for each in shown.ended] == [event["cluster"] for event in ends][-40:]


def test_outputs_that_come_later_are_taken_in_by_time_and_the_oldest_go(monkeypatch):
    monkeypatch.setattr("resonance.pipeline.page.past.MOST_PAST", 3)
    now, past = DeploymentView("shop"), past_of(outputs.event("emerged", "p0/1/0", 0, 10))
    past.extend([("drift", outputs.record(outputs.drift("drift", "p0/1/0", 0, 5)))])
    past.extend([("events", outputs.record(outputs.event("emerged", "other/1/0", 0, 6)))])
    assert [entry["time"] for entry in answers.stream(past.at(moment(10), now), "p0")["events"]] == [
        outputs.time_of(10),
        outputs.time_of(5),
    ]
    past.extend(("events", outputs.record(outputs.event("emerged", f"p0/1/{n}", n, 10 + n))) for n in (1, 2))
    with pytest.raises(UnknownNameError, match="its events are stored from 2026-01-05T08:00:10"):
        past.at(moment(5), now)
    assert set(past.at(moment(12), now).streams["p0"].clusters) == {"p0/1/0", "p0/1/1", "p0/1/2"}


def test_a_stream_that_ended_is_gone_until_it_begins_again():
    end = outputs.event("stream_ended", "p0/1/0", 1, 5) | {"cluster": None, "before": [outputs.snapshot("p0/1/0")]}
    again = outputs.event("emerged", "p0/2/0", 0, 9) | {"version": 2}
    past, now = past_of(outputs.event("emerged", "p0/1/0", 0, 1), end | {"after": []}, again), DeploymentView("shop")
    assert set(past.at(moment(4), now).streams["p0"].clusters) == {"p0/1/0"}
    with pytest.raises(UnknownNameError):
        past.at(moment(6), now)
    then = past.at(moment(9), now).streams["p0"]
    assert (set(then.clusters), then.version, list(then.ended)) == ({"p0/2/0"}, 2, [])


def test_what_is_no_event_of_a_worker_is_passed_over():
    past = past_of(outputs.event("emerged", "p0/1/0", 0, 1), {"kind": "emerged", "stream": "p0", "after": 3})
    past.extend([("events", outputs.record([]))])
    past.extend([("events", outputs.record(orjson.Fragment(b'"text"')))])
    assert set(past.at(moment(2), DeploymentView("shop")).streams["p0"].clusters) == {"p0/1/0"}
