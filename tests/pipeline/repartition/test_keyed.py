"""hierarchy = "keyed": both hops together say what one task says, bit for bit."""

from typing import Any

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.inspect import inspection, listing
from resonance.pipeline.inspect.listing import StoredPartition
from resonance.pipeline.inspect.stream_outputs import StreamOutputs
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.repartition.keyed import operation_records
from resonance.pipeline.repartition.keyed.operation_records import Reader
from resonance.pipeline.replay.file_partitions import replay_all
from resonance.pipeline.replay.sinks import Sink
from resonance.pipeline.replay.two_stage_file import Routes
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.schemas import ClusterTable, load_schema

from tests.night import seeds
from tests.pipeline.repartition.two_hops import KEYED_ROUTES, by_id, by_record, keyed_hops
from tests.pipeline.streams import LIVELY, STAMP, TOPIC, points, records

KEYS = (b"a", b"sh/op 7", b"\xff")
DEEP = {
    **LIVELY,
    "engine.name": "hcaea",
    "engine.lambda": 6,
    "engine.min_cluster_records": 3,
    "engine.min_child_records": 3,
    "engine.max_leaves": 25,
    "engine.max_nodes": 12,
    "input.id_path": "id",
    "output.include": ["net.in"],
    "snapshots.records": 100,
}


def given(hierarchy, **changes):
    values = {name.replace("__", "."): value for name, value in changes.items()}
    return Settings.of({**DEEP, "stream": "key", "hierarchy": hierarchy, **values})


def log_of(partition, count=900):
    found = records(points(count, seed=partition).tolist(), keys=KEYS)
    found[40] = found[40]._replace(value=b"{")
    found[300] = found[300]._replace(value=None)
    found[500] = found[500]._replace(headers=[("traceparent", b"00-1-2-01")])
    return [record._replace(partition=partition, offset=number) for number, record in enumerate(found)]


def local(settings, logs):
    outputs = Outputs()
    for number, log in enumerate(logs):
        outputs.add(PartitionTask(settings, TOPIC, number).process(log))
    return outputs


def same(got, expected):
    """Assignments with every byte; events but for their place in the stream's sequence."""
    assert by_record(got.assignments) == by_record(expected.assignments)
    assert by_id(got.cluster_events) == by_id(expected.cluster_events)
    assert sorted(got.dead_letters) == sorted(expected.dead_letters)
    table, whole = ClusterTable(), ClusterTable()
    for found, outputs in ((table, got), (whole, expected)):
        for message in outputs.cluster_events:
            assert found.apply(message.value)
    assert table.clusters() == whole.clusters()


@pytest.fixture(scope="module")
def logs():
    return [log_of(0), log_of(1)]


@pytest.fixture(scope="module")
def expected(logs):
    found = local(given("local"), logs)
    levels = [orjson.loads(message.value)["level"] for message in found.cluster_events]
    assert min(levels.count(level) for level in (1, 2, 3)) > 30
    return found


@pytest.fixture(scope="module")
def done(logs):
    """What one worker has done, and its outputs."""
    deployment = keyed_hops(given("keyed"), logs)
    return deployment, deployment.run()


@pytest.mark.parametrize(("workers", "moving"), [(1, True), (2, False), (3, True)])
def test_any_number_of_workers_that_come_and_go_says_what_one_task_says(workers, moving, logs, expected):
    same(keyed_hops(given("keyed"), logs, workers, seed=workers).run(moving=moving), expected)


def test_answers_of_the_second_hop_stand_in_the_order_of_the_routes(done):
    deployment, _ = done
    for at, log in deployment.logs.items():
        if at[0] == TOPIC:
            continue
        whole, cut = deployment.make(*at), deployment.make(*at)
        said, one_by_one = whole.process(log), Outputs()
        for record in log:
            one_by_one.add(cut.process([record]))
        assert said == one_by_one
        asks = [ask for ask in Reader("").read(log) if ask.emitted]
        found = [orjson.loads(message.value)["source"]["offset"] for message in said.assignments]
        assert found == [ask.source_offset for ask in asks]


@pytest.mark.parametrize("wanted", ["changes", "novel", "none"])
def test_the_answers_that_the_settings_want_are_those_of_one_task(wanted, logs):
    own = {"output__assignments": wanted, "output__include": [], "input__id_path": None}
    got = keyed_hops(given("keyed", **own), logs[:1], 2).run()
    same(got, local(given("local", **own), logs[:1]))
    assert got.cluster_events


@pytest.mark.parametrize("scale", [{"prepare__scale": "none"}, {"input__features": "x"}])
def test_records_that_are_held_back_at_the_beginning_are_learned_alike(scale):
    log = [
        Record(TOPIC, 0, number, STAMP + number, b"a", orjson.dumps({"x": row.tolist(), "cpu": 1}))
        for number, row in enumerate(points(700) / [1.0, 400.0, 8.0])
    ]
    if "input__features" not in scale:
        scale = {**scale, "input__features": "x"}
    own = {**scale, "input__id_path": None, "output__include": []}
    same(keyed_hops(given("keyed", **own), [log], 2).run(), local(given("local", **own), [log]))


@pytest.mark.parametrize("seed", seeds(1, night=2))
def test_keywords_are_those_of_one_task(seed):
    words = ("refund order", "app crashes", "parcel late", "password reset", "invoice missing")
    values = [
        {"cpu": cpu, "latency_ms": wait, "net": {"in": n}, "text": words[int(wait // 90) % 5]}
        for cpu, wait, n in points(2_500).tolist()
    ]
    log = [Record(TOPIC, 0, number, STAMP + number, b"a", orjson.dumps(value)) for number, value in enumerate(values)]
    own = {"input__text_path": "text", "input__id_path": None, "engine__min_cluster_records": 20}
    expected = local(given("local", **own), [log])
    same(keyed_hops(given("keyed", **own), [log], 2, seed=seed).run(moving=True), expected)
    assert any(orjson.loads(message.value)["kind"] == "described" for message in expected.cluster_events)


@pytest.mark.parametrize("most", [1, 100])
def test_a_record_that_asks_for_more_than_a_message_holds_is_answered_with_all_levels(
    most, logs, expected, monkeypatch
):
    monkeypatch.setattr(operation_records, "VECTORS_BYTES", most)
    deployment = keyed_hops(given("keyed"), logs, 2)
    same(deployment.run(), expected)
    routes = deployment.routed
    asks = Reader("").read(routes)
    assert len(asks) == len(routes)
    assert max(ask.rows for ask in asks) == max(1, most // 32)
    # The record itself is not always the last vector that it leads to.
    places = [(ask.topic, ask.partition, ask.source_offset, ask.part) for ask in asks]
    last = {place: number for number, place in enumerate(places)}
    assert sum(ask.answered >= 0 and last[place] > at for at, (ask, place) in enumerate(zip(asks, places, strict=True)))


def test_many_features_make_many_messages_and_the_same_answers():
    rng = np.random.default_rng(4)
    rows = rng.random((3, 400))[rng.integers(0, 3, 300)] + rng.normal(0, 0.1, (300, 400))
    log = [
        Record(TOPIC, 0, number, STAMP + number, b"a", orjson.dumps({"x": row.tolist()}))
        for number, row in enumerate(rows)
    ]
    own = {"input__features": "x", "input__id_path": None, "output__include": []}
    own |= {
        "prepare__scale": "none",
        "engine__min_child_records": 40,
        "engine__lambda": 20,
        "engine__renew": 0,
        "engine__bandwidth": "all",
    }
    deployment = keyed_hops(given("keyed", **own), [log], 2)
    outputs = deployment.run()
    same(outputs, local(given("local", **own), [log]))
    answers = [orjson.loads(message.value) for message in outputs.assignments]
    assert any(len(answer["path"]) > 1 for answer in answers)
    assert max(ask.rows for ask in Reader("").read(deployment.routed)) == operation_records.most_vectors(400) < 40


def test_messages_that_come_twice_or_too_early_are_left_out(logs, expected):
    """As when a first hop without transactions starts again: what was sent is sent again, one message was lost."""
    deployment = keyed_hops(given("keyed"), logs)
    for at in [at for at in deployment.logs if at[0] == TOPIC]:
        while deployment.waits(at):
            deployment.step(at, 100)
    for at, log in deployment.logs.items():
        if at[0] != TOPIC:
            half = len(log) // 2
            again = [*log[:half], *log[half + 1 : half + 30], *log[half - 40 :]]
            log[:] = [record._replace(offset=number) for number, record in enumerate(again)]
    outputs = deployment.run()
    # What was answered twice was answered with the same bytes, but for the offset of the message.
    answers = {}
    for message in outputs.assignments:
        for place, answer in by_record([message]).items():
            assert answers.setdefault(place, answer) == answer
    assert answers == by_record(expected.assignments)
    assert sum(held.task.repeats for at, held in deployment.held.items() if at[0] != TOPIC) > 0


def test_events_of_subtrees_count_for_themselves_and_fit_the_schema(done):
    _, outputs = done
    validators = {name: Draft202012Validator(load_schema(name)) for name in ("cluster_event", "cluster")}
    numbers = {}
    parts = 0
    for message in outputs.cluster_events:
        event = orjson.loads(message.value)
        validators["cluster_event"].validate(event)
        part = (event["stream"], event.get("subtree"))
        assert event["seq"] == numbers.get(part, 0)
        numbers[part] = event["seq"] + 1
        assert ("subtree" in event) == (event["level"] > 1)
        parts += "subtree" in event
    assert parts
    for message in outputs.clusters:
        if message.value is not None:
            validators["cluster"].validate(orjson.loads(message.value))
    table = ClusterTable.from_clusters((m.key or b"", m.value) for m in outputs.clusters)
    folded = ClusterTable()
    for message in outputs.cluster_events:
        folded.apply(message.value)
    assert table.clusters() == folded.clusters()


def test_a_removed_subtree_leaves_nothing_behind(done):
    deployment, outputs = done
    for at, held in deployment.held.items():
        deployment.write(at, held.task.models.pending(everything=True))
    names = {s for at, held in deployment.held.items() if at[0] != TOPIC for s in held.snapshots}
    alive = {name for at, held in deployment.held.items() if at[0] != TOPIC for name in held.task.models.names}
    routes = deployment.routed
    begun = {ask.part.name for ask in Reader("").read(routes) if ask.number == 0}
    assert names == alive
    assert len(begun) > len(alive) > 0
    present = {m.key: m.value for m in outputs.clusters}
    held = {f"{name.rsplit('/', 1)[0]}/{name.rsplit('/', 1)[1]}" for name in alive}
    for key, value in present.items():
        stream, version, place = (key or b"").decode().rsplit("/", 2)
        if value is not None and "." in place:
            assert f"{stream}/{version}/{place.split('.')[0]}" in held


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine__name": "caea"}, "hierarchy = 'keyed': is for engine.name = hcaea alone"),
        ({"engine__max_depth": 1}, "needs models below the root"),
        ({"stream": "topic"}, "does not go together with stream = topic"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(changes, message):
    plain = {"engine.name", "engine.min_child_records", "engine.max_leaves"} if "engine__name" in changes else set()
    values = {**DEEP, "stream": "key", "hierarchy": "keyed"}
    values = {name: value for name, value in values.items() if name not in plain}
    with pytest.raises(ConfigurationError, match=message):
        Settings.of({**values, **{name.replace("__", "."): value for name, value in changes.items()}})


def test_what_emerged_in_a_subtree_behind_the_snapshot_of_its_root_is_reported():
    def event(cluster, offset, **subtree):
        cause = {"source": {"offset": offset}}
        text = {"kind": "emerged", "stream": "p0", "cluster": cluster, "cause": cause, "time": f"at {offset}"}
        return orjson.dumps(text | subtree)

    values = [event("p0/1/0", 90), event("p0/1/1", 110), event("p0/1/4.0", 110, subtree=4)]

    class Events:
        def has(self, at):
            return True

        def bounds(self, of):
            return dict.fromkeys(of, (0, 3))

        def read(self, bounds):
            yield (
                next(iter(bounds)),
                [Record("events", 0, place, STAMP, None, value) for place, value in enumerate(values)],
            )

    reader: Any = Events()
    found, *_ = inspection._history(StreamOutputs(given("keyed"), reader, (TOPIC, 0), "p0", 100))
    assert {cluster: emerged.time for cluster, emerged in found.items()} == {"p0/1/0": "at 90", "p0/1/4.0": "at 110"}


def stored(hierarchy, task, snapshots):
    """Return a partition as the snapshots topic has it."""
    settings = given(hierarchy)
    ids = {TOPIC: "id-1", settings.topic("routes"): "id-2"}
    deployment = Deployment(1, ids, routes=KEYED_ROUTES if hierarchy == "keyed" else 0)
    identity = DeploymentContext.of(settings, {}, deployment).identities[task.topic]
    record = PartitionRecord(identity, 0, 0, 0, -1, task.partition_state())
    checkpoint = PartitionCheckpoint(record, snapshots)
    return StoredPartition(checkpoint.at, checkpoint, -1, {snapshot.stream: STAMP for snapshot in snapshots})


def test_inspecting_a_stream_shows_it_with_its_subtrees(logs):
    deployment, whole = keyed_hops(given("keyed"), logs[:1], 2), PartitionTask(given("local"), TOPIC, 0)
    deployment.run()
    whole.process(logs[0])
    states = []
    for at, held in deployment.held.items():
        deployment.write(at, held.task.models.names)
        states.append(stored("keyed", held.task, list(held.snapshots.values())))
    assert listing.names_of(states) == whole.models.names
    found = inspection.inspect(given("keyed"), None, states)
    local = stored("local", whole, [whole.models.snapshot(name) for name in whole.models.names])
    one = inspection.inspect(given("local"), None, [local])
    assert [stream.clusters for stream in found] == [stream.clusters for stream in one]
    assert [stream.records for stream in found] == [stream.records for stream in one]
    assert [stream.engine for stream in found] == [stream.engine for stream in one]
    assert any(cluster.level > 1 for stream in found for cluster in stream.clusters)


def test_a_file_is_replayed_through_both_hops(logs, expected):
    batches = iter([log[at : at + 100] for at in range(0, 900, 100) for log in logs])
    routes = Routes.of(given("keyed"), KEYED_ROUTES)
    sinks = [(at, Sink) for at in [(TOPIC, 0), (TOPIC, 1), *routes.logs]]
    found = replay_all(given("keyed"), routes, sinks, lambda: batches, lambda count: None)
    assert sum(part.assignments for part in found) == len(expected.assignments)
    assert sum(part.events for part in found) == len(expected.cluster_events)


def test_a_record_that_no_message_has_room_for_is_refused_before_it_is_learned(monkeypatch):
    monkeypatch.setattr(operation_records, "MIN_BYTES", 0)
    own = {"input__id_path": None, "output__include": [], "input__features": "x", "limits__record_bytes": 900_000}
    task = keyed_hops(given("keyed", **own), []).make(TOPIC, 0)
    log = [Record(TOPIC, 0, number, STAMP, b"a", b'{"x": [1, 2, 3]}') for number in range(30)]
    with pytest.raises(ConfigurationError, match=r"3 features can have 1,020,000 bytes on resonance\.routes.*takes it"):
        task.process(log)
    assert task.models.named("p0:a").next == 0


def test_the_topic_of_the_routes_is_asked_to_take_what_the_settings_say_that_a_record_has():
    own = {"input__id_path": None, "output__include": [], "input__features": "x", "prepare__project": 0}
    usual, wide = given("keyed", **own), given("keyed", **own, input__dimension=20_000)
    assert operation_records.operation_bytes(usual) == 1_040_000
    assert operation_records.operation_bytes(wide) == 8 * 20_001 + 900_000 + 20_000
    features = [f"f{i}" for i in range(20_000)]
    operation_records.check_room(wide, features, "p0")
    with pytest.raises(ConfigurationError, match=r"input.dimension = 20000, or a list as input.features"):
        operation_records.check_room(usual, features, "p0")
