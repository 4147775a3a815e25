"""Replaying a file: what producing it and running a worker would say, and the command around it."""

import re
import tempfile

import numpy as np
import orjson
import pytest
from resonance.pipeline.cli.replay import _sentence
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Record
from resonance.pipeline.replay.replaying import ReplayOutput, Summary, replay_file, target_topics
from resonance.pipeline.replay.run import Replayed
from resonance.pipeline.replay.sinks import FILES
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.watch import picture
from resonance.schemas import ClusterTable

from tests.pipeline.commands import run as run_command
from tests.pipeline.streams import TOPIC, points, run, settings, value_of

KEYS = [b"red", b"green", b"blue", "größe".encode()]


@pytest.fixture
def file(tmp_path):
    """400 records with a key and a time, two of which cannot be used."""
    path = tmp_path / "flows.jsonl"
    lines = []
    for i, row in enumerate(points(400).tolist()):
        line = value_of(row, **{"id": f"r{i}", "key": KEYS[i % 4].decode(), "at": 1_700_000_000_000 + i})
        lines.append(orjson.dumps(orjson.loads(line) | {"cpu": "much"}) if i in (90, 250) else line)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def as_produced(file, partitions):
    """The records of each partition as they would stand on the topic."""
    logs = {partition: [] for partition in range(partitions)}
    for line in file.read_bytes().splitlines():
        content = orjson.loads(line)
        key = content["key"].encode()
        log = logs[partition_of(key, partitions)]
        log.append(Record(TOPIC, partition_of(key, partitions), len(log), content["at"], key, line))
    return logs


def lines(messages):
    return [{"key": (m.key or b"").decode(), "value": orjson.loads(m.value)} for m in messages]


def read(path):
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_says_what_its_records_would_say_on_the_topic(file, tmp_path, processes):
    given = settings(stream="partition")
    folder = tmp_path / "results"
    output, columns = ReplayOutput(folder), Columns(key=("key",), time=("at",))
    summary = replay_file(given, [file], columns, output, partitions=2, processes=processes)
    expected = [run(PartitionTask(given, TOPIC, p), log) for p, log in as_produced(file, 2).items()]
    assert read(folder / "assignments.jsonl") == lines([m for each in expected for m in each.assignments])
    assert read(folder / "cluster-events.jsonl") == lines([m for each in expected for m in each.cluster_events])
    assert summary.as_json()["dead_letters"] == {"wrong_type": 2}
    dead_letters = read(folder / "dead-letters.jsonl")
    assert {orjson.loads(each["value"])["id"] for each in dead_letters} == {"r90", "r250"}
    assert {name for name, _ in dead_letters[0]["headers"]} >= {"resonance.error.class", "resonance.error.offset"}
    assert {path.name for path in folder.iterdir()} == {*FILES.values()}
    table = ClusterTable()
    for each in read(folder / "cluster-events.jsonl"):
        table.apply(each["value"])
    assert [each["key"] for each in read(folder / "clusters.jsonl")] == [
        name for stream in table.streams for name in sorted(table.clusters(stream))
    ]


@pytest.mark.parametrize("stream", ["partition", "field:key"])
def test_two_files_say_what_they_would_say_as_one(stream, file, tmp_path):
    given, columns, rows = settings(stream=stream), Columns(key=("key",), time=("at",)), file.read_bytes().splitlines()
    parts = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    for part, own in zip(parts, (rows[:170], rows[170:]), strict=True):
        part.write_bytes(b"\n".join(own))
    replay_file(given, [file], columns, ReplayOutput(tmp_path / "whole"), partitions=2)
    replay_file(given, parts, columns, ReplayOutput(tmp_path / "parts"), partitions=2)
    for name in FILES.values():
        assert read(tmp_path / "parts" / name) == read(tmp_path / "whole" / name)


def test_the_earliest_dead_letters_of_all_partitions_are_the_examples(tmp_path):
    path = tmp_path / "flows.jsonl"
    path.write_bytes(b"".join(b'{"cpu": "x", "latency_ms": 1, "net": {"in": 1}, "at": %d}\n' % at for at in range(8)))
    found = replay_file(settings(stream="partition"), [path], Columns(time=("at",)), partitions=2).examples
    assert [each["source"] for each in found] == [f"{TOPIC}[0]@0", f"{TOPIC}[1]@0", f"{TOPIC}[0]@1"]


def test_a_broken_file_ends_every_process_and_says_why(file):
    file.write_bytes(file.read_bytes() + b"{broken\n")
    given = settings(stream="partition")
    with pytest.raises(InputFileError, match=r"line 401: not JSON"):
        replay_file(given, [file], Columns(key=("key",)), partitions=2, processes=2)


def test_outputs_are_never_mixed_with_recorded_ones():
    given = settings(name="flows")
    assert target_topics(given, "copy")["cluster_events"] == "copy.cluster-events"
    with pytest.raises(
        ConfigurationError, match=r"--to-name flows: flows\.alerts, flows\.assignments, .* choose another name"
    ):
        target_topics(given, "flows")


OPTIONS = ["--input.features", '["cpu", "latency_ms", "net.in"]', "--set", "stream=partition", "--processes", "1"]


def test_the_command_shows_a_table(file, tmp_path, printed):
    shown = printed(run_command, "replay", "flows.jsonl", "--key", "key", *OPTIONS)
    assert shown.out.split()[:8] == ["records", "assignments", "events", "dead", "letters", "400", "398", "5"]
    assert "wrong_type 2" in shown.out
    assert re.findall(r"\n(\S+) +wrong_type  cpu is text", shown.out) == ["flows[0]@90", "flows[0]@250"]
    assert shown.out.splitlines()[-1].startswith("replayed 400 records in")


def test_the_command_names_a_feature_that_only_grows(tmp_path, command, capsys, printed):
    rows = points(8_000)
    rows[:, 2] = 0.02 * np.arange(len(rows)) + np.random.default_rng(0).normal(0, 0.3, 8_000)
    lines = [value_of(row, at=1_700_000_000_000 + 60_000 * i) for i, row in enumerate(rows.tolist())]
    (tmp_path / "flows.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    assert "hint: net.in left its range " in printed(run_command, "replay", "flows.jsonl", "--time", "at", *OPTIONS).out
    assert command("replay", "flows.jsonl", "--time", "at", "--json", *OPTIONS) == 0
    assert orjson.loads(capsys.readouterr().out)["partitions"][0]["ranges"]["restless"] == {"net.in": 1}


def test_the_command_writes_json(file, tmp_path, printed):
    arguments = ["replay", "flows.jsonl", "--key", "key", "--partitions", "2", "-o", "results", "--json"]
    found = orjson.loads(printed(run_command, *arguments, *OPTIONS).out)
    assert (found["records"], found["assignments"], found["output"]) == (400, 398, "results")
    assert [part["partition"] for part in found["partitions"]] == [0, 1]
    assert all(each["class"] == "wrong_type" and len(each["value"]) == 80 for each in found["examples"])
    assert len(found["examples"]) == 2
    assert len(read(tmp_path / "results" / "assignments.jsonl")) == 398


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.jsonl"], 66, "nowhere.jsonl cannot be read"),
        (["flows.jsonl", "--from", "10"], 2, "--from, --to, --last, --partition and --fresh are for topics"),
        (["flows.jsonl", "--key", "kez"], 2, "has no column kez (did you mean key?)"),
        (
            ["flow", "--input.topics", "flows"],
            2,
            "neither a file nor an input topic of resonance (did you mean flows?)",
        ),
        (["--input.topics", "flows", "--from", "soon"], 2, "--from soon: must be earliest, latest, a time"),
        (["--input.topics", "flows", "--last", "10"], 2, "--last 10: give a number with ms, s, m, h or d"),
        (["--input.topics", "flows", "--last", "1m", "--from", "3"], 2, "both say where the range begins"),
        (["flows.jsonl", "-o", "x", "--to-name", "y"], 2, "outputs go to one place"),
        (["flows.jsonl", "--picture", "x.png", "--to-name", "y"], 2, "leave --rules-only and --to-name out"),
        (["flows.jsonl", "--picture", "x.jpg"], 2, "--picture x.jpg: its name must end in .png, .svg, .pdf"),
        (["flows.jsonl", "--picture", "no/x.png"], 2, "there is no folder no; make it"),
    ],
)
def test_the_command_says_what_is_wrong(file, tmp_path, arguments, code, message, printed):
    assert message in printed(run_command, "replay", *arguments, *OPTIONS, code=code).err


@pytest.mark.parametrize("more", [[], ["-o", "results", "--output.assignments", "none"]])
def test_a_picture_is_drawn_and_nothing_else_is_left(file, tmp_path, command, monkeypatch, capsys, more):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    seen = []
    monkeypatch.setattr(picture, "figure_of", lambda lives, _: seen.extend(lives) or picture.blank(1, 1))
    assert command("replay", "flows.jsonl", "--key", "key", "--picture", "x.png", *more, *OPTIONS) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert "picture: x.png" in capsys.readouterr().err
    assert list((tmp_path / "temporary").iterdir()) == []
    (life,) = seen
    assert (life.counted, life.records > 0, len(life.lines) > 0) == (not more, True, True)


def test_without_an_answer_there_is_no_picture(file, tmp_path, printed):
    options = ["--name", "resonance", "--input.topics", "flows", "--input.features", "id"]
    said = printed(run_command, "replay", "flows.jsonl", "--picture", "x.png", *options, code=2).err
    assert "none of the 400 records of flows.jsonl could be used" in said
    assert "picture: " not in said
    assert not (tmp_path / "x.png").exists()


def test_without_matplotlib_nothing_is_replayed(file, monkeypatch, printed):
    monkeypatch.setattr(picture, "find_spec", lambda _: None)
    said = printed(run_command, "replay", "flows.jsonl", "--picture", "x.png", *OPTIONS, code=2).err
    assert said.endswith("not installed: pip install 'resonance-streams[picture]'\n")
    assert "replayed" not in said


def test_what_was_learned_silently_is_in_the_rate_and_said():
    parts = [Replayed("t", 0, records=12, silent=988), Replayed("t", 1)]
    text = _sentence(Summary(parts, 0.5), " to again")
    assert text == "replayed 12 records, and learned 988 silently before them, in 0.5 s (2,000 a second) to again"
    assert _sentence(Summary(parts[1:], 0.5), "") == "replayed 0 records in 0.5 s (0 a second)"
