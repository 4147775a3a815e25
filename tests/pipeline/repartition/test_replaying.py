"""The recorded routes replayed and verified: what the live run said, or where it differs."""

import orjson
import pytest
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.evaluate.candidates import Candidate
from resonance.pipeline.evaluate.evaluation import evaluate
from resonance.pipeline.evaluate.source import open_topic
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.replay import replaying, two_stage_file
from resonance.pipeline.verify import verify as verifying

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment, rekeyed
from tests.pipeline.repartition.two_hops import ROUTES, inputs, settings
from tests.pipeline.streams import TOPIC


@pytest.fixture
def deployment(monkeypatch):
    """Three streams, with killed workers, dead letters of both hops, and archives."""
    made = rekeyed(monkeypatch, snapshots__records=100)
    for offset, value in ((450, b"nonsense"), (451, b'{"country": "DE", "cpu": "x"}')):
        made.logs[TOPIC, 1].append(made.logs[TOPIC, 1][0]._replace(offset=offset, value=value))
    made.turn(0.4, archive=True, everything=True)
    made.turn(0.4, only=TOPIC, lost=True)
    made.turn(0.7, archive=True)
    made.turn(1.0)
    made.turn(1.0)
    return made


def verify(deployment, **span):
    return verifying.verify(deployment.given, Span.parse(**span))


def test_both_hops_are_identical_with_what_was_recorded(deployment):
    verdict = verify(deployment)
    assert verdict.identical, verdict.differences()
    hops = {part.topic for part in verdict.parts}
    assert (hops, verdict.total("assignments"), verdict.total("routes")) == ({TOPIC, ROUTES}, 900, 901)
    assert verdict.records == verdict.as_json()["records"] == 902, "each record of the input once"
    assert sum(part.dead_letters for part in verdict.parts if part.topic == TOPIC) == 1
    assert sum(part.dead_letters for part in verdict.parts if part.topic == ROUTES) == 1
    assert verdict.total("events") == sum(len(deployment.logs["resonance.cluster-events", p]) for p in range(3)) > 5


def test_a_changed_answer_is_found_and_named_by_its_feature_record(deployment):
    log = deployment.logs["resonance.assignments", 1]
    content = orjson.loads(log[200].value)
    log[200] = log[200]._replace(value=orjson.dumps({**content, "novel": not content["novel"]}))
    ((topic, difference),) = verify(deployment).differences()
    assert (topic, difference.kind, difference.what) == (ROUTES, "assignments", "other")
    about = f"{TOPIC}[1]@{content['source']['offset']}"
    assert difference.sentences(topic)[0].startswith(f"resonance.assignments[1], about {about}: is recorded otherwise")


def test_a_lost_route_and_a_lost_dead_letter_of_the_first_hop_are_found(deployment):
    dead_letters = deployment.logs["resonance.dead-letters", 1]
    dead_letters[:] = [r for r in dead_letters if r.value != b"nonsense"]
    ((topic, difference),) = verify(deployment).differences()
    assert (topic, difference.kind, difference.what, difference.offset) == (TOPIC, "dead_letters", "missing", 450)


def test_a_replay_of_the_routes_is_the_live_run(deployment, tmp_path):
    summary = replaying.replay_topics(deployment.given, deployment.given.logs, Span(), replaying.ReplayOutput(tmp_path))
    assert [part.topic for part in summary.parts] == [TOPIC] * 2 + [ROUTES] * 3
    lines = [orjson.loads(line) for line in (tmp_path / "assignments.jsonl").read_bytes().splitlines()]
    live = [r for p in range(2) for r in deployment.logs["resonance.assignments", p]]
    found = {(orjson.dumps(line["value"]), (line["key"] or "").encode()) for line in lines}
    assert found == {(orjson.dumps(orjson.loads(r.value)), r.key) for r in live}
    assert len(lines) == len(found) == 900
    assert summary.silent == 0
    assert len((tmp_path / "dead-letters.jsonl").read_bytes().splitlines()) == 2


def test_empty_models_in_the_middle_of_the_routes(deployment):
    summary = replaying.replay_topics(deployment.given, [ROUTES], Span.parse(begin="200"), fresh=True)
    assert 0 < sum(part.assignments for part in summary.parts) < 900
    assert {part.start for part in summary.parts if part.records} == {"empty models at offset 200 (--fresh)"}


@pytest.mark.parametrize("stream", ["topic", "field:country"])
def test_a_file_is_routed_in_the_order_of_its_rows(tmp_path, stream):
    rows = sorted((record for log in inputs(400).values() for record in log), key=lambda record: record.timestamp)
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"".join((record.value or b"") + b"\n" for record in rows))
    given = settings(stream, input__id_path="id", topics__routes_partitions=2)
    summary = replaying.replay_file(given, [file], Columns(), replaying.ReplayOutput(tmp_path / "out"), partitions=3)
    assert (summary.records, sum(part.assignments for part in summary.parts)) == (400, 400)
    lines = [orjson.loads(line)["value"] for line in (tmp_path / "out/assignments.jsonl").read_bytes().splitlines()]
    by_stream = {}
    for line in lines:
        by_stream.setdefault(line["stream"], []).append(int(line["id"][1:]))
        # Rows without keys take the partitions by turns.
        assert (line["source"]["partition"], line["source"]["offset"]) == divmod(int(line["id"][1:]), 3)[::-1]
    assert all(numbers == sorted(numbers) for numbers in by_stream.values())
    assert set(by_stream) == ({TOPIC} if stream == "topic" else {"DE", "FR", "IT"})


def test_the_first_hop_takes_the_rows_of_a_partition_at_once(tmp_path, monkeypatch):
    file, sizes, process = tmp_path / "rows.jsonl", [], RouterTask.process
    file.write_bytes(b"".join((record.value or b"") + b"\n" for log in inputs(600).values() for record in log))
    monkeypatch.setattr(RouterTask, "process", lambda task, rows: sizes.append(len(rows)) or process(task, rows))
    replaying.replay_file(settings(input__id_path="id"), [file], Columns(), partitions=3)
    assert sizes == [200] * 3


@pytest.fixture
def unrouted(monkeypatch):
    """A topic of two partitions that no worker has read."""
    return MemoryDeployment(monkeypatch, partitions=2, records=200, stream="topic", input__id_path="id")


def rows_of(folder):
    lines = [orjson.loads(line)["value"] for line in (folder / "assignments.jsonl").read_bytes().splitlines()]
    return [(line["source"]["partition"], line["source"]["offset"], line["clusters"]) for line in lines]


def test_without_routes_the_records_are_replayed_in_the_order_of_their_times(unrouted, tmp_path):
    file, logs = tmp_path / "rows.jsonl", [unrouted.logs[TOPIC, number] for number in (0, 1)]
    file.write_bytes(b"".join((record.value or b"") + b"\n" for pair in zip(*logs, strict=True) for record in pair))
    out = replaying.ReplayOutput(tmp_path / "topic")
    summary = replaying.replay_topics(unrouted.given, unrouted.given.logs, Span(), out)
    replaying.replay_file(unrouted.given, [file], Columns(), replaying.ReplayOutput(tmp_path / "file"), partitions=2)
    assert rows_of(tmp_path / "topic") == rows_of(tmp_path / "file")
    assert (summary.records, [part.end for part in summary.parts[:2]]) == (400, [201, 201])
    assert summary.note == two_stage_file.MADE_ORDER


def test_a_range_without_routes_begins_with_empty_models(unrouted):
    later = Span.parse(begin="150")
    with pytest.raises(ConfigurationError, match="models at the beginning of a range are not known: add --fresh"):
        replaying.replay_topics(unrouted.given, unrouted.given.logs, later)
    assert replaying.replay_topics(unrouted.given, unrouted.given.logs, later, fresh=True).records == 100


def test_an_evaluation_needs_no_routes_and_says_in_which_order_it_is(unrouted, tmp_path):
    replaying.replay_topics(unrouted.given, unrouted.given.logs, Span(), replaying.ReplayOutput(tmp_path))
    found = evaluate([Candidate("modal", unrouted.given, {})], open_topic(unrouted.given, TOPIC, Span()))
    run = found.candidates[0].run
    answers = [None if number < 0 else run.names[number] for number in run.cluster.tolist()]
    assert answers == [clusters[0] if clusters else None for *_, clusters in rows_of(tmp_path)]
    assert two_stage_file.MADE_ORDER in found.notes


def test_an_input_of_routes_is_replayed_with_them(deployment, printed):
    assert orjson.loads(printed(run, "replay", TOPIC, "--processes", "1", "--json").out)["assignments"] == 900
