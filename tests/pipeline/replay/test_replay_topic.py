"""Replaying ranges of topics: what was recorded comes again, from the state at the beginning of the range."""

import time

import orjson
import pytest
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.positions import Span, newest_time
from resonance.pipeline.recovery.reset import plan_stream_reset
from resonance.pipeline.replay.replaying import ReplayOutput, replay_topics
from resonance.pipeline.timestamps import TimeTexts

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import STAMP, TOPIC


@pytest.fixture
def deployment(monkeypatch):
    made = MemoryDeployment(monkeypatch)
    made.work(200, archive=True)
    made.work(600)
    return made


def lines(folder, name):
    return [orjson.loads(line) for line in (folder / name).read_bytes().splitlines()]


def recorded(deployment, kind, first, end):
    contents = [orjson.loads(record.value) for record in deployment.recorded(kind)]
    return [content for content in contents if first <= content.get("cause", content)["source"]["offset"] < end]


# The log ends behind a marker, at offset 601.
@pytest.mark.parametrize(
    ("span", "first", "end", "silent"),
    [
        (Span.parse(), 0, 601, 0),
        (Span.parse(begin="250", end="400"), 250, 400, 50),
        (Span.parse(begin="100"), 100, 601, 100),
        (Span.parse(begin=TimeTexts()[STAMP + 350_000], end=TimeTexts()[STAMP + 360_000]), 350, 360, 150),
        (Span.parse(last="1m"), 539, 601, 339),
    ],
)
def test_a_range_says_what_was_recorded(deployment, tmp_path, span, first, end, silent):
    (part,) = replay_topics(deployment.given, [TOPIC], span, ReplayOutput(tmp_path)).parts
    assert (part.begin, part.end, part.records, part.silent) == (first, end, min(end, 600) - first, silent)
    for kind, name in (("assignments", "assignments.jsonl"), ("cluster_events", "cluster-events.jsonl")):
        assert [line["value"] for line in lines(tmp_path, name)] == recorded(deployment, kind, first, end)


def test_a_log_of_the_future_has_no_newest_time(deployment):
    before = time.time_ns() // 1_000_000
    assert newest_time(deployment, [(TOPIC, 0)]) == STAMP + 599_000
    deployment.logs[TOPIC, 0] = [record._replace(timestamp=4_000_000_000_000) for record in deployment.logs[TOPIC, 0]]
    assert before <= newest_time(deployment, [(TOPIC, 0)]) <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("begin", [200, 650])
def test_where_a_stream_was_begun_anew_its_new_model_answers(deployment, tmp_path, begin):
    for stream in ("p0:a", "p0:b"):
        change = plan_stream_reset(deployment.source, stream)
        deployment.write(deployment.source, [change])
        deployment.grow(100)
        deployment.work(len(deployment.logs[TOPIC, 0]), archive=stream == "p0:a")
    (part,) = replay_topics(deployment.given, [TOPIC], Span.parse(begin=str(begin)), ReplayOutput(tmp_path)).parts
    assert [note.split(": from there on")[0] for note in part.notes] == [
        f"a new version of a model began at offset {offset}" for offset in (600, 700) if offset > begin
    ]
    for kind, name in (("assignments", "assignments.jsonl"), ("cluster_events", "cluster-events.jsonl")):
        assert [line["value"] for line in lines(tmp_path, name)] == recorded(deployment, kind, begin, 800)


def test_fresh_models_begin_with_the_range(deployment, tmp_path):
    (part,) = replay_topics(
        deployment.given, [TOPIC], Span.parse(begin="300"), ReplayOutput(tmp_path), fresh=True
    ).parts
    assert (part.start, part.silent) == ("empty models at offset 300 (--fresh)", 0)
    assert lines(tmp_path, "assignments.jsonl")[0]["value"]["status"] == "warming_up"


def test_where_no_worker_has_run_the_log_is_replayed_from_its_beginning(monkeypatch):
    deployment = MemoryDeployment(monkeypatch)
    deployment.expire(TOPIC, 100)
    (part,) = replay_topics(deployment.given, [TOPIC], Span.parse(begin="150")).parts
    assert (part.start, part.silent, part.records) == ("empty models at offset 100, where they began", 50, 450)


def test_a_topic_without_records_is_an_error(monkeypatch):
    deployment = MemoryDeployment(monkeypatch, records=0)
    deployment.logs[TOPIC, 0] = []
    with pytest.raises(BrokerError, match=r"features on .* holds no committed records; there is nothing to replay"):
        replay_topics(deployment.given, [TOPIC], Span.parse())


def test_the_command_says_where_the_models_came_from(deployment, command, capsys, printed):
    shown = printed(run, "replay", TOPIC, "--from", "250", "--to", "400", "--json")
    archive = "from the archive at offset 200 (2023-11-14T22:16:39.000Z), 50 records learned silently"
    assert f"partition 0: {archive}" in shown.err
    found = orjson.loads(shown.out)
    assert (found["records"], found["partitions"][0]["silent"], found["output"]) == (150, 50, None)
    assert command("replay", "--partition", "0", "--last", "30s") == 0
    assert "replayed 31 records, and learned 369 silently before them, in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--partition", "1"], 2, "--partition 1: the input has the partitions 0 to 0"),
        (["featurs"], 2, "featurs is neither a file nor an input topic of resonance (did you mean features?)"),
        (["--to-name", "resonance"], 2, "belong to the deployment resonance itself"),
        (["--from", "601"], 69, "has no committed records in that range"),
    ],
)
def test_the_command_says_what_is_wrong(deployment, arguments, code, message, printed):
    assert message in printed(run, "replay", *arguments, code=code).err
