"""Both hops with labels after crashes and repeats, replayed and verified: as if nothing had happened."""

from collections import Counter

import numpy as np
import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.inspect import listing
from resonance.pipeline.inspect.inspection import inspect
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import recovery, reset
from resonance.pipeline.replay import replaying
from resonance.pipeline.verify import verify
from resonance.pipeline.verify.output_refs import dead_letter_ref
from resonance.schemas import dead_letter_headers

from tests.pipeline.labels.feedback import LABELS, labelled, labels_of, rows
from tests.pipeline.memory_deployment import rekeyed
from tests.pipeline.repartition.two_hops import ROUTES, settings
from tests.pipeline.streams import STAMP, TOPIC, errors

SMALL = {
    "engine__name": "mlca_c",
    "engine__lambda": 10,
    "engine__min_cluster_records": None,
    "labels__topic": LABELS,
    "labels__buffer_records": 60,
    "labels__wait_records": 25,
    "prepare__warmup_records": 20,
    "snapshots__records": 100,
}


def deployed(patch, **changed):
    """Three streams, and labels for most of their records in more partitions than the records have."""
    made = rekeyed(patch, labels=4, **SMALL, **changed)
    rng = np.random.default_rng(0)
    rows = sorted((record for p in range(2) for record in made.logs[TOPIC, p]), key=lambda record: record.timestamp)
    for i, record in enumerate(rows):
        said = orjson.loads(record.value)
        if rng.random() < 0.8:
            labels = ["busy"] * (said["cpu"] > 0.5) + ["slow"] * (said["latency_ms"] > 200)
            value = orjson.dumps({"id": said["id"], "labels": labels, "stream": said["country"]})
            made.append((LABELS, i % 4), Message(b"l", value, []), timestamp=STAMP + 1_000 * i)
    made.append((LABELS, 3), Message(None, b'{"id": "x"}', []), timestamp=STAMP)
    return made


def dead_letters(deployment):
    return [record for p in range(4) for record in deployment.logs["resonance.dead-letters", p]]


@pytest.fixture
def broken(monkeypatch):
    """What workers left that were killed in each hop, with archives."""
    made = deployed(monkeypatch)
    made.turn(0.2, archive=True, everything=True)
    for only in (TOPIC, LABELS):
        made.turn(0.3, only=only, lost=True)
    for share in (0.3, 0.4, 0.5):
        made.turn(share, archive=True)
    made.turn()
    made.turn()
    return made


def test_what_is_written_again_is_learned_once_and_the_routes_alone_say_the_same(broken):
    known = Counter(errors(record)["class"] for record in dead_letters(broken))
    assert known["too_late"] > 10
    assert known["wrong_type"] == 1
    assert {record.partition for record in dead_letters(broken)} == {0, 1, 2, 3}
    models = broken.models()
    assert set(models) == {"DE", "FR", "IT"}
    for partition in range(3):
        task = broken.task(ROUTES, partition)
        outputs = task.process(broken.logs[ROUTES, partition])
        for name in task.models.names:
            assert task.models.named(name).state() == models[name]
        assert [message.value for message in outputs.drift_events] == [
            record.value for record in broken.logs["resonance.drift-events", partition]
        ]


def test_verify_finds_both_hops_identical(broken, tmp_path):
    verdict = verify.verify(broken.given, Span())
    assert verdict.identical, verdict.differences()
    assert {part.topic for part in verdict.parts} == {TOPIC, LABELS, ROUTES}
    assert sum(part.dead_letters for part in verdict.parts) == len(dead_letters(broken))
    assert sum(part.drift_events for part in verdict.parts) > 0
    middle = verify.verify(broken.given, Span.parse(begin="150", end="350"))
    assert middle.identical, middle.differences()
    summary = replaying.replay_topics(broken.given, broken.given.logs, Span(), replaying.ReplayOutput(tmp_path))
    assert len((tmp_path / "dead-letters.jsonl").read_bytes().splitlines()) == len(dead_letters(broken))
    assert sum(part.assignments for part in summary.parts) == 900
    drifts = (tmp_path / "drift-events.jsonl").read_bytes().splitlines()
    assert len(drifts) == sum(len(broken.logs["resonance.drift-events", p]) for p in range(3))


def test_a_lost_dead_letter_about_labels_that_had_waited_is_found(broken):
    lost = next(record for record in dead_letters(broken) if "decided_by" in errors(record))
    log = broken.logs["resonance.dead-letters", lost.partition]
    log[:] = [record for record in log if record is not lost]
    ((topic, difference),) = verify.verify(broken.given, Span()).differences()
    assert (topic, difference.kind, difference.what) == (ROUTES, "dead_letters", "missing")


def test_inspect_tells_what_is_known_of_labels(broken):
    found = inspect(broken.given, broken, listing.read_states(broken.source, broken), "DE")
    labels = found[0].labels
    assert labels is not None
    assert sorted(labels.known) == ["busy", "slow"]
    assert labels.records > 50
    assert 0 < labels.buffered <= 60
    assert found[0].as_json()["labels"]["waiting"] == labels.waiting


def test_a_reset_sends_labels_through_the_hop_again(broken):
    before = {partition: len(broken.logs[ROUTES, partition]) for partition in range(3)}
    known = len(dead_letters(broken))
    reset.reset(broken.source)
    assert {at for at in broken.offsets if at[0] == LABELS} == {(LABELS, p) for p in range(4)}
    said = broken.turn()
    again = [record.value for partition, count in before.items() for record in broken.logs[ROUTES, partition][count:]]
    sent = [record.value for p in range(4) for record in broken.logs[LABELS, p]]
    sent += [record.value for p in range(2) for record in broken.logs[TOPIC, p]]
    assert sorted(again) == sorted(value for value in sent if value != b'{"id": "x"}')
    parts = restore_partitions(broken.source, [(ROUTES, p) for p in range(3)], broken.task).values()
    models = [part.task.models.named(name) for part in parts for name in part.task.models.names]
    assert {model.version for model in models} == {2}
    # Each label is learned once, waits, or is one dead letter.
    done = sum(model.labels.learned + len(model.labels.waiting) for model in models)
    assert sum(labels is not None for model in models for _, labels in model.labels.held) == 0
    assert done + len(dead_letters(broken)) - known == sum(len(broken.logs[LABELS, p]) for p in range(4))
    assert sum(model.labels.learned for model in models) > 100
    assert sum(len(outputs.assignments) for outputs in said.values()) == 900


def settings_of_both(deployment):
    """Settings of an engine that labels teach, and of one that they do not."""
    own = {"prepare__warmup_records": 20, "snapshots__records": 100}
    return deployment.given, settings("field:country", input__id_path="id", **own)


@pytest.mark.parametrize("back", [False, True])
def test_another_engine_begins_where_the_old_models_stood_when_they_were_killed(monkeypatch, back):
    made = deployed(monkeypatch)
    taught_by, plain = settings_of_both(made)
    first, second = (taught_by, plain) if back else (plain, taught_by)
    made.take_settings(first)
    made.turn(0.5)
    made.turn(0.7, kept=False)
    places = [at for at in made.source.logs if at[0] == ROUTES]

    def models():
        parts = restore_partitions(made.source, places, made.task).values()
        return {
            name: (part.task.models.named(name), part.task.models.clusters(name))
            for part in parts
            for name in part.task.models.names
        }

    before = models()
    stored = {
        snapshot.stream: snapshot.next for state in listing.read_states(made.source, made) for snapshot in state.streams
    }
    assert any(model.next > stored.get(name, 0) for name, (model, _) in before.items())
    made.take_settings(second)
    found = inspect(second, made, listing.read_states(made.source, made))
    assert {stream.engine for stream in found} == {first.engine.name}
    assert recovery.recover(mismatches.NEW_VERSION, made.source) > 0
    after = models()
    assert set(after) == set(before)
    for name, (model, clusters) in before.items():
        new = after[name][0]
        assert (new.version, new.seq) == (2, model.seq)
        assert {cluster["id"] for cluster in new.ended} == {cluster["id"] for cluster in clusters}
    made.turn()
    made.turn()
    events = [orjson.loads(record.value) for p in range(3) for record in made.logs["resonance.cluster-events", p]]
    numbers = Counter((event["stream"], event["seq"]) for event in events if event.get("part", 1) == 1)
    assert set(numbers.values()) == {1}


def test_a_dead_letter_that_failed_again_is_said_with_its_own_record():
    text = dead_letter_ref("n")
    first = {"topic": "labels", "partition": "1", "offset": "5", "class": "too_late", "version": "1"}
    headers = dead_letter_headers("n", {**first, "decided_by": "songs-0-40"})
    assert text(Message(None, b"{}", headers)) == ("songs", 40, 1, (True, "labels", 1, 5), 0, (), None)
    again = dead_letter_headers("n", {**first, "offset": "9", "class": "wrong_type"})
    assert text(Message(None, b"{}", headers + again)) == ("labels", 9, 1, (), 1, (), None)
    assert text(Message(None, b"{}", [*again, *headers])) == ("songs", 40, 1, (True, "labels", 1, 5), 0, (), None)
    within = dead_letter_headers("n", {**first, "decided_by": "songs-0-40.3"})
    assert text(Message(None, b"{}", within)) == ("songs", 40, 1, (True, "labels", 1, 5), 0, (), 3)
    assert text(Message(None, b"{}", [])) is None


@pytest.mark.parametrize("stream", ["partition", "topic"])
def test_a_file_with_labels_is_replayed(tmp_path, stream):
    points = rows(80)
    file = tmp_path / "rows.jsonl"
    lines = [{"id": i, "x": row, "is": labels_of(row) if i % 2 else None} for i, row in enumerate(points)]
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    given = labelled(stream=stream, input__label_path="is")
    summary = replaying.replay_file(given, [file], Columns(), replaying.ReplayOutput(tmp_path / "out"))
    assert (summary.records, sum(part.assignments for part in summary.parts)) == (80, 80)
    found = [orjson.loads(line)["value"] for line in (tmp_path / "out/assignments.jsonl").read_bytes().splitlines()]
    assert set(found[-1]["labels"]) == {"right", "7"}
    assert [bool(answer["path"]) for answer in found[20:]] == [i % 2 == 1 for i in range(20, 80)]
    assert not (tmp_path / "out/drift-events.jsonl").read_bytes()
