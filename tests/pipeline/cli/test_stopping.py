"""A command that is stopped says in which state that leaves things."""

import importlib
import sys

import pytest
from resonance.pipeline.checkpoint import codec
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.cli import dlq, main, plans, reset, topics
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.recovery import entry, rollback

UNCHANGED = "stopped; nothing was changed"
PART = f"{UNCHANGED}, but"
WRITTEN = "stopped while it was being written: it may be done"
TOPICS, DEAD_LETTERS = "replay.replaying.replay_topics", "dead_letters.records.read_dead_letters"
SOURCE, STATES = "recovery.entry.open_source", "checkpoint.codec.read_file"
SURVEY, START = "topics.topics.survey", "topics.start_check.check_start"
WRITE = "recovery.rewrite.write"


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "where", "said"),
    [
        *(("topics plan", SURVEY, UNCHANGED), ("topics check", START, UNCHANGED)),
        ("topics create", SURVEY, "stopped; some topics may have been made"),
        ("bootstrap", "replay.bootstrapping.bootstrap", "stopped; what is learned is written at the very end"),
        ("replay", TOPICS, UNCHANGED),
        ("replay -o out", "replay.replaying.replay_topics", f"{UNCHANGED}, but out may hold a part of the outputs"),
        ("replay --to-name new", TOPICS, f"{PART} the topics of new may hold a part of the outputs"),
        *(("verify", "verify.verify.verify", UNCHANGED), ("inspect", SOURCE, UNCHANGED)),
        *(("snapshots list", SOURCE, UNCHANGED), ("snapshots export file", SOURCE, UNCHANGED)),
        ("snapshots import file", STATES, UNCHANGED),
        ("snapshots import file --yes", WRITE, WRITTEN),
        *(("reset", SOURCE, UNCHANGED), ("reset --stream p0 --yes", SOURCE, UNCHANGED)),
        ("reset --stream p0 --yes", WRITE, WRITTEN),
        ("reset --yes", "recovery.rewrite.write", WRITTEN),
        ("promote a --over b", "shadow.deployments.find_both", UNCHANGED),
        ("compare a b", "shadow.deployments.find_both", UNCHANGED),
        ("dlq list", DEAD_LETTERS, UNCHANGED),
        ("dlq list --export out", DEAD_LETTERS, f"{PART} out may hold a part of the dead letters"),
        ("dlq replay", "dead_letters.replay.plan", UNCHANGED),
        ("dlq replay --yes", "dead_letters.replay.replay", "stopped; what was replayed so far counts"),
        ("dlq resume", "worker.http.page_client.resume", "stopped before the worker answered"),
        ("worker --compile-only", "kernels.compile_all", "stopped; what is compiled so far is kept"),
    ],
)
def test_what_is_left_is_said_at_ctrl_c(monkeypatch, capsys, command, where, said):
    # What comes before the place where it is stopped needs no broker here.
    deployment = Deployment(1, {"t": "id"})
    monkeypatch.setattr(entry, "open_source", lambda settings: DeploymentContext.of(settings, {}, deployment))
    monkeypatch.setattr(codec, "read_file", lambda _: [])
    monkeypatch.setattr(rollback, "plan_import", lambda *_: [])
    monkeypatch.setattr(reset, "_plan", lambda *_: [])
    monkeypatch.setattr(plans, "alone", lambda _: None)
    monkeypatch.setattr(dlq, "connected", lambda *_: ({"bootstrap.servers": "none:1"}, [("n.dead-letters", 0)]))
    monkeypatch.setattr(dlq, "replay_source", lambda *_: None)
    monkeypatch.setattr(topics, "_cluster", lambda *_: None)
    monkeypatch.setattr("resonance.pipeline.kafka.positions.ranges_from", lambda *_: {})
    module, name = f"resonance.pipeline.{where}".rsplit(".", 1)
    monkeypatch.setattr(importlib.import_module(module), name, interrupt)
    monkeypatch.setenv("RESONANCE_INPUT__TOPICS", "t")
    monkeypatch.setenv("RESONANCE_STREAM", "partition")
    monkeypatch.setenv("RESONANCE_NAME", "n")
    monkeypatch.setattr(sys, "argv", ["resonance", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
    text = capsys.readouterr().err
    assert text.startswith(said)
    assert text.count("\n") == 1


def test_an_export_that_is_stopped_leaves_no_half_file_behind(monkeypatch, tmp_path):
    monkeypatch.setattr(codec, "encoded", lambda *_: (interrupt() for _ in "x"))
    with pytest.raises(KeyboardInterrupt):
        codec.write_file(tmp_path / "file", [])
    assert not any(tmp_path.iterdir())
