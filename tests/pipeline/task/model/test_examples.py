"""The examples of a cluster are its best records of late, whatever the batches and the restarts."""

import numpy as np
import orjson
import pytest
from resonance.engine.base import Event
from resonance.engine.state import pack, unpack
from resonance.pipeline.task.model.examples import BLOCK_OFFSETS, EXAMPLES, ID_BYTES, _OfCluster, _Typical, best_of
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import KIND, STATE_REVISION, StreamModel

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment, rekeyed
from tests.pipeline.streams import TOPIC, payloads, points, process, records, settings, task, uneven, value_of
from tests.pipeline.task.test_partition_task import ENGINES, changed

GIVEN = {"input__id_path": "id"}


def named(count, name):
    rows = points(count).tolist()
    log = records(rows)
    return [log[i]._replace(value=value_of(row, id=name(i))) for i, row in enumerate(rows)]


def made(count, step=1):
    """Records whose offsets lie `step` apart, so that blocks end among them."""
    return [record._replace(offset=record.offset * step) for record in named(count, lambda number: f"r{number}")]


def answered(outputs):
    """The assignments of each cluster: (score, offset, id), in their order."""
    found = {}
    for each in payloads(outputs.assignments):
        if each["cluster"] is not None:
            found.setdefault(each["cluster"], []).append((each["score"], each["source"]["offset"], each["id"]))
    return found


def examples_of(worker):
    (model,) = worker.models
    return {
        f"p0/1/{cluster.id}": model.examples.of(cluster.id, (TOPIC, 0))
        for cluster in model.engine.clusters()
        if not cluster.path
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("step", [1, 37])
def test_the_batches_do_not_matter(engine, step):
    log = made(1_500, step)
    whole, cut = (task(changed(engine, **GIVEN)) for _ in range(2))
    outputs = whole.process(log)
    assert process(cut, uneven(log, step)).clusters == outputs.clusters
    states = [next(iter(worker.models)).examples.state() for worker in (whole, cut)]
    assert states[0] == states[1]
    assert any(examples_of(whole).values())


def test_they_are_the_best_records_of_the_last_blocks_since_the_last_split():
    step = BLOCK_OFFSETS // 1_100
    log = made(1_500, step)
    worker = task(settings(**GIVEN))
    outputs = worker.process(log)
    began = {}
    for event in payloads(outputs.cluster_events):
        began[event["cluster"]] = event["cause"]["source"]["offset"]
        if event["kind"] == "split":
            began[event["other"]] = event["cause"]["source"]["offset"]
    answers = answered(outputs)
    checked = 0
    for name, examples in examples_of(worker).items():
        own = [each for each in answers[name] if each[1] > began[name]]
        last = own[-1][1] // BLOCK_OFFSETS
        newest = [each for each in own if each[1] // BLOCK_OFFSETS == last]
        best = sorted(newest, key=lambda each: (-each[0], each[1]))[:EXAMPLES]
        if len(best) < EXAMPLES:
            continue
        checked += 1
        assert [(each["score"], each["source"]["offset"], each["id"]) for each in examples] == best
        assert examples[0]["source"] == {"topic": TOPIC, "partition": 0, "offset": best[0][1]}
    assert checked


def test_of_equal_scores_the_first_record_stays():
    best = [_Typical(score, offset, None, None) for offset, score in enumerate((0.9, 0.8, 0.7))]
    entered = [_OfCluster(0, best, []).add(0, score) for score in (0.5, 0.7, 0.75, 0.8, 0.85, 0.95)]
    assert entered == [None, None, 2, 2, 1, 0]


def test_a_cluster_without_new_records_keeps_those_of_before():
    worker = task(settings(**GIVEN))
    log = made(1_500)
    worker.process(log)
    name, before = next((name, found) for name, found in examples_of(worker).items() if len(found) == EXAMPLES)
    quiet = made(1_600)[1_500:]
    worker.process([record._replace(offset=record.offset + 10 * BLOCK_OFFSETS, value=b"{") for record in quiet])
    assert examples_of(worker)[name] == before
    # One record of a new block is among them, in the place of the worst.
    again = next(record for record in log if record.offset == before[0]["source"]["offset"])
    (answer,) = payloads(worker.process([again._replace(offset=20 * BLOCK_OFFSETS)]).assignments)
    assert answer["cluster"] == name
    found = {each["source"]["offset"] for each in examples_of(worker)[name]}
    assert 20 * BLOCK_OFFSETS in found
    assert len(found) == EXAMPLES
    assert len(found & {each["source"]["offset"] for each in before}) == EXAMPLES - 1


def test_they_are_in_the_state_and_a_state_without_them_goes_on():
    worker = task(settings(**GIVEN))
    worker.process(made(800))
    (model,) = worker.models
    state = model.state()
    again = StreamModel.from_state("modal", model.name, state)
    assert again.examples.state() == model.examples.state() != []
    assert again.state() == state
    header, parts = unpack(state, KIND, STATE_REVISION)
    del header["examples"]
    old = StreamModel.from_state("modal", model.name, pack(KIND, STATE_REVISION - 1, header, parts))
    assert old.examples.state() == []


def test_an_event_that_names_no_other_cluster_drops_none(monkeypatch):
    worker = task(settings(**GIVEN))
    log = made(250)
    worker.process(log[:-1])
    before = examples_of(worker)
    event = Event(0, "split", (), 99, 99, None, (), ())
    monkeypatch.setattr(StreamModel, "process", lambda *_: LearnResult(events=[(0, event)]))
    worker.process(log[-1:])
    assert examples_of(worker) == before
    assert before["p0/1/0"]


def test_a_long_id_is_left_out_and_a_record_without_one_has_none():
    for id_, kept in (("x" * ID_BYTES, None), ("y" * (ID_BYTES - 2), "y" * (ID_BYTES - 2)), (7, 7)):
        worker = task(settings(**GIVEN))
        worker.process(named(600, lambda _, id_=id_: id_))
        assert {each["id"] for found in examples_of(worker).values() for each in found} == {kept}
    worker = task(settings())
    worker.process(records(points(600).tolist()))
    assert {each["id"] for found in examples_of(worker).values() for each in found} == {None}


@pytest.mark.parametrize(("clusters", "levels"), [(1, 1_000), (6, 4), (40, 1_000), (400, 2)])
def test_the_best_are_chosen(clusters, levels):
    rng = np.random.default_rng(clusters)
    for _ in range(20):
        cluster = rng.integers(-1, clusters, 600)
        score = rng.integers(0, levels, 600) / levels
        numbers = np.flatnonzero(rng.random(clusters) < 0.5)
        least = rng.random(len(numbers))
        chosen = best_of(cluster, score, numbers, least)
        bounds = dict(zip(numbers.tolist(), least.tolist(), strict=True))
        expected = []
        for number in range(clusters):
            wanted = [at for at in np.flatnonzero(cluster == number) if score[at] > bounds.get(number, -1)]
            expected += sorted(wanted, key=lambda at: (-score[at], at))[:3]
        assert chosen == sorted(expected)


OPTIONS = ("--topics", "features", "--name", "resonance")


@pytest.mark.parametrize("layout", ["key", "field"])
def test_the_command_shows_the_records_and_says_which_are_gone(monkeypatch, capsys, layout, printed):
    if layout == "key":
        deployment = MemoryDeployment(monkeypatch, records=900, **GIVEN)
        deployment.work(500, everything=True)
        deployment.work(900, everything=True)
    else:
        deployment = rekeyed(monkeypatch, records=900)
        deployment.turn()
        deployment.turn(everything=True)
    stream = orjson.loads(printed(run, "inspect", *OPTIONS, "--json").out)[0]["stream"]
    clusters = orjson.loads(printed(run, "inspect", *OPTIONS, "--json", "--stream", stream).out)["clusters"]
    cluster = next(each for each in clusters if len(each["examples"]) == EXAMPLES)
    shown = orjson.loads(printed(run, "inspect", cluster["id"], "--records", *OPTIONS, "--json").out)
    assert [each["value"]["id"] for each in shown] == [each["id"] for each in cluster["examples"]]
    for each in shown:
        place = each["source"]
        log = deployment.logs[place["topic"], place["partition"]]
        assert orjson.loads(next(r.value for r in log if r.offset == place["offset"])) == each["value"]
    first = min((each["source"]["partition"], each["source"]["offset"]) for each in shown)
    deployment.expire(TOPIC, first[1] + 1, first[0])
    lines = printed(run, "inspect", cluster["id"], "--records", *OPTIONS).out.splitlines()
    assert len(lines) == EXAMPLES
    gone = [line for line in lines if line.startswith(f"features[{first[0]}]@{first[1]} ")]
    assert gone
    assert gone[0].endswith(f"it is deleted: the topic's retention has the records from offset {first[1] + 1:,} on")
    assert run(monkeypatch, "inspect", f"{stream}/1/99", "--records", *OPTIONS) == 2
    assert f"there is no cluster {stream}/1/99" in capsys.readouterr().err
