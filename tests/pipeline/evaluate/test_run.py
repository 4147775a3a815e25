"""One candidate on topics, on labels, and with models that are looked at on the way."""

import numpy as np
import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError
from resonance.pipeline.evaluate.candidates import Candidate
from resonance.pipeline.evaluate.dataset import read
from resonance.pipeline.evaluate.evaluation import evaluate
from resonance.pipeline.evaluate.run import run_candidate
from resonance.pipeline.evaluate.source import FileSource, open_topic
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.records import MOST_ELEMENTS, Message
from resonance.pipeline.task.decode.unpacking import of_single_records

from tests.pipeline.labels.feedback import LABELS, labelled, labels_of, late, rows
from tests.pipeline.logs import MemoryReader
from tests.pipeline.memory_deployment import MemoryDeployment, packed
from tests.pipeline.streams import STAMP, TOPIC, settings


def names(run):
    return [None if number < 0 else run.names[number] for number in run.cluster.tolist()]


@pytest.fixture
def deployment(monkeypatch):
    made = MemoryDeployment(monkeypatch, partitions=2)
    made.work(600)
    return made


def silent(_):
    pass


def test_a_topic_gives_the_recorded_answers_and_events(deployment):
    source = open_topic(deployment.given, TOPIC, Span())
    data = read(deployment.given, source, None)
    run = run_candidate(deployment.given, source, data, None, silent)
    for partition in (0, 1):
        answers = [orjson.loads(record.value) for record in deployment.recorded("assignments", partition)]
        mine = data.log == partition
        assert np.array(names(run), dtype=object)[mine].tolist() == [answer["cluster"] for answer in answers]
        assert run.novel[mine].tolist() == [answer["novel"] for answer in answers]
        events = [orjson.loads(record.value) for record in deployment.recorded("cluster_events", partition)]
        found = [(at, event) for at, event in run.events if mine[at]]
        assert [event for _, event in found] == events
        assert [data.offset[at] for at, _ in found] == [event["cause"]["source"]["offset"] for event in events]
    assert run.state_bytes > 0


def test_records_of_several_partitions_are_in_the_order_of_their_times(deployment):
    source = open_topic(deployment.given, TOPIC, Span.parse(begin="100", end="200"))
    data = read(deployment.given, source, None)
    assert data.offset.tolist() == [offset for offset in range(100, 200) for _ in (0, 1)]
    assert data.log.tolist() == [0, 1] * 100


def test_an_empty_range_ends_in_a_sentence(deployment):
    with pytest.raises(BrokerError, match=r"features on .* has no committed records in that range; there is nothing"):
        open_topic(deployment.given, TOPIC, Span.parse(begin="300", end="300"))


def test_shuffled_records_keep_their_places_and_take_their_classes_along(tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [{"cpu": i, "latency_ms": 0, "net": {"in": 0}, "kind": f"k{i % 3}"} for i in range(60)]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    given = settings(stream="partition")
    data = read(given, FileSource(path, Columns(), TOPIC, 2), "kind")
    shuffled, order = data.rearranged(0)
    assert sorted(order) == list(range(60))
    assert order.tolist() != list(range(60))
    assert (data.log[order] == data.log).all()
    for place in range(60):
        assert shuffled.rows[place][0] == order[place]
        assert shuffled.classes[shuffled.truth[place]] == f"k{order[place] % 3}"


def test_labels_in_the_record_are_the_truth_of_predicted_labels(tmp_path):
    path = tmp_path / "songs.jsonl"
    lines = [{"id": f"r{i}", "x": row, "labels": labels_of(row)} for i, row in enumerate(rows(400))]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    given = labelled(input__label_path="labels")
    source = FileSource(path, Columns(), TOPIC)
    found = evaluate([Candidate("mlca", given, {})], source, truth="labels")
    figures = found.candidates[0].whole
    assert found.criterion == "f1_micro"
    assert 0.5 < figures["f1_micro"] <= 1
    assert {"f1_macro", "hamming", "exact", "ari"} <= figures.keys()
    assert sorted(found.data.classes) == ["", "7", "7+right", "right"]


def test_late_labels_are_the_truth_of_the_records_with_their_ids(monkeypatch):
    given = late()
    log = MemoryDeployment(monkeypatch, routes=1, labels=1, **{"stream": "topic"})
    log.given = given
    points = rows(300)
    log.logs[TOPIC, 0], log.logs[LABELS, 0] = [], []
    for i, row in enumerate(points):
        value = orjson.dumps({"id": f"r{i}", "x": row})
        MemoryReader.append(log, (TOPIC, 0), Message(b"k", value, []), timestamp=STAMP + 1_000 * i)
        if i % 2 == 0:
            said = orjson.dumps({"id": f"r{i}", "labels": labels_of(row)})
            MemoryReader.append(log, (LABELS, 0), Message(b"k", said, []), timestamp=STAMP + 1_000 * i + 5_000)
    log.source.deployment.topic_ids[LABELS] = "id-3"
    log.take_settings(given)
    source = open_topic(given, TOPIC, Span(), LABELS)
    data = read(given, source, LABELS)
    known = data.truth >= 0
    assert known.tolist() == [i % 2 == 0 for i in range(300)]
    assert [data.labels[data.truth[i]] for i in range(0, 300, 2)] == [
        tuple(sorted(map(str, labels_of(points[i])))) for i in range(0, 300, 2)
    ]
    run = run_candidate(given, source, data, None, silent)
    assert (run.predicted[50:] >= 0).all()
    with pytest.raises(ConfigurationError, match="--shuffle: labels that come later"):
        evaluate([Candidate("mlca", given, {})], source, truth=LABELS, shuffles=1)


def test_ten_thousand_clusters_are_measured_without_k_means(tmp_path):
    path = tmp_path / "many.jsonl"
    lines = [{"features": [i % 12_000, 0.5], "kind": str(i % 12_000)} for i in range(24_000)]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    given = Settings.of({"input.topics": [TOPIC], "engine.name": "evq", "prepare.scale": "none"})
    found = evaluate([Candidate("evq", given, {})], FileSource(path, Columns(), TOPIC), truth="kind")
    assert "k-means would have 12,000 clusters, 500 are computed at most: left out" in found.notes
    assert [one.name for one in found.baselines] == ["one cluster"]


@pytest.mark.parametrize("seed", [None, 1])
def test_the_records_of_a_message_are_evaluated_one_by_one(monkeypatch, seed):
    made = packed(MemoryDeployment(monkeypatch, input__records=".", input__id_path="id"))
    made.work(60)
    source = open_topic(made.given, TOPIC, Span())
    single = of_single_records(made.given)
    data = read(single, source, None)
    run = run_candidate(single, source, data, seed, silent)
    # What is no message is no record, either.
    assert len(data) == 591
    assert int((run.cluster > -2).sum()) == 589
    if seed is None:
        answers = [orjson.loads(record.value) for record in made.recorded()]
        places = [each["source"]["offset"] * MOST_ELEMENTS + each["source"]["index"] for each in answers]
        known = dict(zip(data.offset.tolist(), names(run), strict=True))
        assert [known[place] for place in places] == [each["cluster"] for each in answers]
