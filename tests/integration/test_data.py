"""A newcomer's way on a real broker: a file is produced, clustered, watched, and what was wrong with it replayed."""

import json

import pytest

from tests.brokers import read_topic, topic_name
from tests.integration.workers import WorkerProcess
from tests.pipeline.commands import run as run_command

pytestmark = pytest.mark.broker

BAD = (50, 120, 121, 300, 599)
"""Rows whose feature is no number."""


def run(monkeypatch, capsys, *arguments):
    assert run_command(monkeypatch, *arguments) == 0, capsys.readouterr().err
    return capsys.readouterr()


def test_a_file_is_produced_clustered_watched_and_what_was_wrong_is_replayed(monkeypatch, capsys, tmp_path, broker):
    name = topic_name("flows")
    rows = [f"r{n},h{n % 7},{'oops' if n in BAD else n % 3 * 10 + n % 10 / 10},{n % 3}" for n in range(600)]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.csv").write_text("\n".join(["id,host,x,y", *rows]) + "\n")
    options = ["-t", name, "--broker", broker, "--key", "host", "--create-partitions", "2"]
    said = run(monkeypatch, capsys, "produce", "flows.csv", *options)
    (tmp_path / "resonance.toml").write_text(said.err.partition("`resonance worker` reads them:\n")[2])

    with WorkerProcess({}, arguments=["--config", str(tmp_path / "resonance.toml")]) as worker:
        # One model for all: each record is routed, then learned.
        worker.wait_for(lambda health: health["ready"] and seen(health) == 1200)
        assert worker.terminate() == 0

    everything = ["watch", "--from", "earliest", "--until-end", "--json"]
    kinds = ["-k", "assignments", "-k", "events", "-k", "dead-letters"]
    text = [json.loads(line) for line in run(monkeypatch, capsys, *everything, *kinds).out.splitlines()]
    kinds = [line["kind"] for line in text]
    assert (kinds.count("assignments"), kinds.count("dead-letters")) == (600 - len(BAD), len(BAD))
    assert kinds.count("events") > 0
    recent = run(monkeypatch, capsys, "watch", "--from", "-10m", *everything[3:], "-k", "dead-letters").out.splitlines()
    assert len(recent) == len(BAD)

    listed = json.loads(run(monkeypatch, capsys, "dlq", "list", "--json").out)
    assert listed["classes"] == [{"stage": "validate", "class": "wrong_type", "records": len(BAD)}]
    replay = ["dlq", "replay", "-y"]
    assert run(monkeypatch, capsys, *replay, "--limit", "2").out.endswith("replayed 2 dead letters\n")
    assert run(monkeypatch, capsys, *replay).out.endswith("replayed 3 dead letters; 2 were replayed before\n")
    assert run(monkeypatch, capsys, *replay).err.startswith("nothing to replay; 5 were replayed before")
    log = read_topic(broker, name)
    again = [message for message in log if message.headers()]
    for partition in range(2):
        originals = [m for m in log if m.partition() == partition and not m.headers() and b"oops" in m.value()]
        copies = [m for m in again if m.partition() == partition]
        assert [(m.key(), m.value()) for m in copies] == [(m.key(), m.value()) for m in originals]
        marks = [[(f"{name}.dlq.source", f"{name}-{partition}-{m.offset()}".encode())] for m in originals]
        assert [m.headers() for m in copies] == marks
    assert len(again) == len(BAD)


def seen(health):
    return sum(partition["records"] for partition in health["seen"].values())
