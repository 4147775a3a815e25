"""`Scorer`: the answers of a worker's model, in another process, from its snapshots."""

import asyncio
import re
import time
from pathlib import Path

import orjson
import pytest
from resonance.engine import ENGINES, LabelEngine
from resonance.engine.errors import StateError
from resonance.pipeline.checkpoint.changelog_records import manifest_key
from resonance.pipeline.errors import BrokerError, ConfigurationError, MismatchError
from resonance.pipeline.mismatches import NEW_VERSION
from resonance.pipeline.records import Message, Record
from resonance.pipeline.recovery import recovery
from resonance.pipeline.scorer import NoPlaceError, Scorer
from resonance.pipeline.task.streams import Streams

from tests.night import at_night
from tests.pipeline.memory_deployment import KEYED, MemoryDeployment, rekeyed
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.streams import STAMP, TOPIC, points, value_of
from tests.pipeline.task.test_scoring import without_path

VALUE = value_of([0.5, 10.0, 1.0])


def scoring(deployment):
    # What comes next must not stand before where a log ends.
    logs = deployment.logs
    deployment.bounds = lambda places: {at: (0, logs[at][-1].offset + 1 if logs[at] else 0) for at in places}
    return Scorer(deployment.given, interval=0.01)


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def assignments(scores):
    return [scored.assignment for scored in scores]


def next_answers(deployment, at, records):
    """What a worker answers to each of some records as to the first one behind the snapshots."""
    outputs = [deployment.restored(at[0])[at].task.process([record]) for record in records]
    return [without_path(each.value) for found in outputs for each in found.assignments]


UNLABELLED = [name for name, kind in ENGINES.items() if not issubclass(kind, LabelEngine)]
ALWAYS = "modal", "hcaea"
"""Engines of each run: every engine predicts what it answers next (engine/test_engines.py)."""


@pytest.mark.parametrize("engine", [*ALWAYS, *(at_night(name) for name in UNLABELLED if name not in ALWAYS)])
def test_the_answers_are_those_of_the_worker_at_that_version(monkeypatch, engine):
    given = {"engine__lambda": None} if engine not in ("modal", "caea", "hcaea") else {}
    if engine not in ("modal", "caea", "hcaea", "ildn"):
        given["engine__min_cluster_records"] = None
    deployment = MemoryDeployment(monkeypatch, records=700, engine__name=engine, input__id_path="id", **given)
    deployment.work(640, everything=True)
    later = deployment.logs[TOPIC, 0][640:]
    with scoring(deployment) as scorer:
        expected = next_answers(deployment, (TOPIC, 0), later)
        # Twice: nothing was learned.
        for scored in (scorer.score_all(later), scorer.score_all(later)):
            assert assignments(scored) == expected
            assert {each.model.next for each in scored} == {638, 640}
    assert {orjson.loads(each.assignment)["status"] for each in scored} == {"assigned"}


def source_of(route):
    """Partition and offset of the record of a route."""
    _, partition, offset, _ = orjson.loads(dict(route.headers)["resonance.source"])
    return partition, offset


def test_repartitioned_streams_are_answered_wherever_they_are_learned(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(0.8, everything=True)
    deployment.turn(0.0, only=TOPIC)
    # Each restores all models: every fourth record is enough.
    later = [each for at in ((TOPIC, 0), (TOPIC, 1)) for each in deployment.logs[at][360::4]]
    with scoring(deployment) as scorer:
        found = scorer.score_all(later)
        nowhere = scorer.score(later[0].value)
        batch = scorer.score_batch([later[0].value], b"DE")
        assert scorer.score({"cpu": 1.0}).refusal.kind == "no_key"
        assert scorer.score(value_of([1.0, 1.0, 1.0], country="none")).refusal.kind == "no_model"
    before = {at: len(log) for at, log in deployment.logs.items() if at[0] == ROUTES}
    deployment.turn(only=TOPIC)
    sources = {(record.partition, record.offset) for record in later}
    routes = {at: [r for r in deployment.logs[at][count:] if source_of(r) in sources] for at, count in before.items()}
    expected = {
        value[value.index(b'"source"') :] for at in routes for value in next_answers(deployment, at, routes[at])
    }
    assert {each.assignment[each.assignment.index(b'"source"') :] for each in found} <= expected
    assert len({each.model.stream for each in found}) == 3
    source = orjson.loads(nowhere.assignment)["source"]
    assert (source["topic"], source["offset"]) == (ROUTES, nowhere.model.next)
    assert {each.model.stream for each in batch.each()} == {"DE"}


def test_the_models_are_followed_to_their_end(monkeypatch):
    deployment = MemoryDeployment(monkeypatch, records=900)
    deployment.work(500, everything=True)
    with scoring(deployment) as scorer:
        first = scorer.score(VALUE, b"a", partition=0)
        until(lambda: scorer.score(VALUE, b"a", partition=0).model.time)
        place = scorer.score(VALUE, b"a", partition=0).model
        assert place.stream == "p0:a"
        assert (place.next, place.behind) == (499, 400)
        assert place.time == "2023-11-14T22:21:38.000Z"
        assert scorer.models["p0:b"].next == 500

        deployment.work(800, everything=True)
        until(lambda: scorer.models["p0:a"].next > 790)
        second = scorer.score(VALUE, b"a", partition=0)
        assert second.model.next > 790 > first.model.next

        # A next version, of another engine.
        changed = deployment.changed(
            engine__name="caea",
        )
        deployment.take_settings(changed)
        assert recovery.recover(NEW_VERSION, deployment.source) == 1
        until(lambda: scorer.models["p0:a"].version == 2)
        assert orjson.loads(scorer.score(VALUE, b"a", partition=0).assignment)["status"] == "warming_up"

        deployment.append((deployment.source.snapshots, 0), Message(manifest_key("p0:a"), None, []))
        until(lambda: "p0:a" not in scorer.models)
        refusal = scorer.score(VALUE, b"a", partition=0).refusal
        assert (refusal.stage, refusal.kind) == ("model", "no_model")
        assert "p0:a" not in scorer._held[TOPIC, 0].times
        assert "stream p0:a has no model here" in refusal.message
        assert scorer.score(VALUE, b"b", partition=0).assignment

        # A reset, after which nothing is known.
        for record in deployment.logs[deployment.source.snapshots, 0].copy():
            deployment.append((deployment.source.snapshots, 0), Message(record.key, None, []))
        until(lambda: not scorer.models)
        assert scorer.score(VALUE, b"b", partition=0).refusal.kind == "no_model"


def test_while_the_snapshots_cannot_be_read_answers_go_on_and_say_that_they_are_old(monkeypatch):
    deployment = MemoryDeployment(monkeypatch, records=600)
    deployment.work(500, everything=True)

    def away(partitions):
        raise BrokerError("no broker answers")

    with scoring(deployment) as scorer:
        until(lambda: scorer.models["p0:a"].behind == 100)
        monkeypatch.setattr("resonance.pipeline.scorer.KNOWN_SECONDS", 0.05)
        before, deployment.bounds = deployment.bounds, away
        until(lambda: scorer.trouble)
        until(lambda: scorer.models["p0:a"].behind is None)
        assert scorer.trouble == "no broker answers"
        assert scorer.score(VALUE, b"a", partition=0).assignment
        deployment.bounds = before
        until(lambda: not scorer.trouble)


@pytest.mark.parametrize("unusable", [MismatchError, StateError])
def test_a_snapshot_that_cannot_be_used_holds_no_other_stream_back(monkeypatch, unusable):
    deployment = MemoryDeployment(monkeypatch, 2, records=900)
    deployment.work(500, everything=True)
    replace = Streams.replace

    def damaged(models, name, snapshot):
        if name == "p0:a":
            raise unusable("the snapshot of p0:a cannot be used")
        replace(models, name, snapshot)

    with scoring(deployment) as scorer:
        before = scorer.models["p0:a"].next
        assert set(scorer.models) == {"p0:a", "p0:b", "p1:a", "p1:b"}
        monkeypatch.setattr(Streams, "replace", damaged)
        deployment.work(800, everything=True)
        until(lambda: all(scorer.models[name].next > 790 for name in ("p0:b", "p1:a", "p1:b")))
        until(lambda: scorer.trouble == "the snapshot of p0:a cannot be used")
        assert scorer.score(VALUE, b"a", partition=0).model.next == before
        monkeypatch.setattr(Streams, "replace", replace)
        until(lambda: scorer.models["p0:a"].next > 790)
        until(lambda: not scorer.trouble)


def test_a_partition_that_cannot_be_read_holds_no_other_back(monkeypatch):
    deployment = MemoryDeployment(monkeypatch, 2, records=900)
    deployment.work(500, everything=True)
    with scoring(deployment) as scorer:
        deployment.work(800, everything=True)
        until(lambda: all(model.next > 790 for model in scorer.models.values()))
        place = deployment.source.snapshots, 0
        deployment.append(place, Message(manifest_key("p0:c"), b"{", []))
        until(lambda: "the manifest of stream p0:c" in scorer.trouble)
        deployment.append((place[0], 1), Message(manifest_key("p1:a"), None, []))
        until(lambda: set(scorer.models) == {"p0:a", "p0:b", "p1:b"})
        deployment.append(place, Message(manifest_key("p0:c"), None, []))
        until(lambda: not scorer.trouble)


def test_a_partition_is_put_in_place_with_all_its_models_or_not_at_all(monkeypatch):
    deployment = MemoryDeployment(monkeypatch, 2, records=600)
    deployment.work(500, everything=True)
    replace = Streams.replace

    def full(models, name, snapshot):
        if name == "p0:b":
            raise OSError("no space is left for temporary files")
        replace(models, name, snapshot)

    with scoring(deployment) as scorer:
        with scorer._lock:
            scorer._held.clear()
            monkeypatch.setattr(Streams, "replace", full)
        deployment.work(600, everything=True)
        until(lambda: "no space is left" in scorer.trouble)
        assert not scorer.models
        monkeypatch.setattr(Streams, "replace", replace)
        until(lambda: len(scorer.models) == 4)


def test_a_batch_is_answered_like_its_records_from_values_or_from_numbers(monkeypatch):
    deployment = MemoryDeployment(monkeypatch, stream="partition", records=600)
    deployment.work(600, everything=True)
    rows = points(700)[600:]
    rows[7] = 1e200
    values = [value_of(row) for row in rows.tolist()]
    monkeypatch.setattr("resonance.pipeline.scorer._now", lambda: STAMP)
    with scoring(deployment) as scorer:
        one_by_one = [scorer.score(value) for value in values]
        assert scorer.score(orjson.loads(values[0])).assignment == one_by_one[0].assignment
        for batch in (scorer.score_batch(values), scorer.score_batch(rows)):
            found = batch.each()
            assert assignments(found) == assignments(one_by_one)
            assert [each.refusal and each.refusal.kind for each in found] == [None] * 7 + ["out_of_range"] + [None] * 92
            assert batch.refusals[7] == one_by_one[7].refusal


def test_a_record_must_have_a_place_or_a_stream(monkeypatch):
    deployment = MemoryDeployment(monkeypatch, 2, stream="partition", records=300)
    deployment.work(300, everything=True)
    with scoring(deployment) as scorer:
        with pytest.raises(NoPlaceError, match=r"name one of the partitions 0 to 1"):
            scorer.score(VALUE)
        with pytest.raises(NoPlaceError, match=r"features\[2\] is no partition of this deployment's input"):
            scorer.score(VALUE, partition=2)
        with pytest.raises(NoPlaceError, match=r"other\[0\] is no partition"):
            scorer.score_all([Record("other", 0, 0, 0, None, VALUE)])
        assert scorer.score(VALUE, partition=1).model.stream == "p1"
        # Where a producer puts the key.
        assert {scorer.score(VALUE, b"%d" % key).model.stream for key in range(9)} == {"p0", "p1"}


def test_a_hierarchy_on_all_workers_is_refused(monkeypatch):
    deployment = rekeyed(monkeypatch, **KEYED)
    with pytest.raises(ConfigurationError, match="Scorer is not available with hierarchy = keyed"):
        Scorer(deployment.given)


def test_the_examples_of_the_page_are_programs_and_the_agent_answers(monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "scorer.md").read_text()
    served, agent = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert max(served.count("\n"), agent.count("\n")) <= 25
    compile(served, "docs/scorer.md", "exec")
    deployment = MemoryDeployment(monkeypatch, records=600)
    deployment.work(600, everything=True)
    with scoring(deployment) as scorer:
        monkeypatch.setattr("resonance.pipeline.scorer.Scorer", lambda _: scorer)
        names = {"__name__": "example"}
        # What the agent yields goes to no broker.
        exec(agent.replace('topic("orders"', f'topic("{TOPIC}"').replace(", sink=[pages]", ""), names)  # noqa: S102 - the example of our own page

        async def answers():
            async with names["page"].test_context() as context:
                await context.put(VALUE, key=b"a")
                return context.results

        (assignment,) = asyncio.run(answers()).values()
        assert orjson.loads(assignment)["stream"] == "p0:a"
