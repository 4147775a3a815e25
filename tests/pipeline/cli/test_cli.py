"""The command line: what it takes, and what it says of what it cannot take."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
import typer
from resonance.pipeline.cli import main
from resonance.pipeline.config.reference import as_markdown
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.topics.acls import ROLES
from typer.main import get_command

from tests.pipeline.commands import run


def _commands(group, name=""):
    for word in group.commands:
        command = group.get_command(None, word)
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name}{word} ")
        else:
            yield f"{name}{word}", {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize(
    ("line", "option", "remedy"),
    [
        ("replay a.csv --names a,b --names c,d", "--names", "write it once: --names A,B,..."),
        ("replay a.csv --partitions 2 --partitions 3", "--partitions", "leave one out"),
        ("topics plan -c a.toml --config b.toml", "--config", "leave one out"),
        ("dlq list --from 1 --from 2", "--from", "leave one out"),
        ("settings --topics a --topics b", "--topics", "write it once: --topics TOPIC,..."),
    ],
)
def test_an_option_of_one_value_that_is_given_twice_is_refused(printed, line, option, remedy):
    said = f"error: {option}: it is given twice on the command line; {remedy}\n"
    assert printed(run, *line.split(), code=2).err == said


def test_the_rights_say_for_every_command_that_asks_a_broker_who_needs_them():
    asking = {name for name, _ in _commands(get_command(main.app))} - {"worker", "settings check", "demo", "dlq resume"}
    text = " ".join(ROLES.values())
    assert {name for name in asking if f"`{name}`" not in text} == set()
    documented = (Path(__file__).resolve().parents[3] / "docs/security.md").read_text()
    assert {name for name in asking if name.split()[-1] not in documented} == set()


@pytest.mark.parametrize(
    "command",
    [
        *("produce in.csv", "bootstrap", "watch", "replay", "verify", "inspect", "reset", "topics plan"),
        *("topics create", "topics check", "snapshots list", "snapshots export file", "dlq list", "dlq replay"),
    ],
)
def test_an_absent_broker_is_one_line(tmp_path, command, printed):
    (tmp_path / "in.csv").write_text("x\n1\n")
    options = [*command.split(), "--broker", "127.0.0.1:9", "--broker.answer_timeout", "0.2", "--input.topics", "in"]
    assert printed(run, *options, code=69).err.startswith("error: no Kafka broker answers at 127.0.0.1:9 within 0.2 s")


def _helps(group, name="resonance"):
    """Yield the help of every command, as a terminal of usual width shows it."""
    yield name, group.get_help(typer.Context(group, info_name=name))
    for word in getattr(group, "commands", ()):
        yield from _helps(group.get_command(None, word), f"{name} {word}")


def test_no_help_is_cut_off_or_shows_the_types_of_values():
    for name, text in _helps(get_command(main.app)):
        # What does not fit into the list of commands ends like this.
        assert not re.search(r"\.\.\.$", text.partition("Commands:")[2], re.MULTILINE), name
        assert not re.search(r"^ +-.* <\w+", text, re.MULTILINE), name


def test_the_first_process_of_a_container_ends_at_sigterm(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    try:
        run(monkeypatch, "--version")
        assert signal.getsignal(signal.SIGTERM) is before
        # The kernel gives process 1 no signal whose handling is the default one.
        monkeypatch.setattr(os, "getpid", lambda: 1)
        run(monkeypatch, "--version")
        handler = signal.getsignal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    assert callable(handler)
    handler(signal.SIGTERM, None)
    assert ended == [143]


def test_a_setting_is_an_option():
    arguments = ["worker", "--engine.lambda", "28", "--prepare.missing=-1=x", "--name", "a.b", "--engine.tau", "-1"]
    assert list(main.as_options(arguments)) == [
        *("worker", "--set", "engine.lambda=28", "--set", "prepare.missing=-1=x"),
        *("--name", "a.b", "--set", "engine.tau=-1"),
    ]


def test_options_of_every_command_may_stand_anywhere():
    line = "-s a=1 inspect p0/1/3 --name x --stream p0 --set=b=2 --config own.toml --as y -ca.toml --topics"
    assert main.shared_first(line.split()) == [
        *("-s", "a=1", "--name", "x", "--set=b=2", "--config", "own.toml", "-ca.toml", "--topics"),
        *("inspect", "p0/1/3", "--stream", "p0", "--as", "y"),
    ]


def test_the_demo_takes_no_settings(printed):
    assert "resonance demo reads no settings of a deployment" in printed(run, "demo", "--name", "x", code=2).err


@pytest.mark.parametrize("behind", [["--name", "x"], ["--engine.tau", "0.1"], []])
def test_a_forgotten_value_does_not_swallow_the_next_option(behind):
    with pytest.raises(ConfigurationError, match=r"^--engine\.lambda needs a value"):
        list(main.as_options(["worker", "--engine.lambda", *behind]))


def test_two_ways_to_recover_do_not_go_together(monkeypatch, capsys):
    assert run(monkeypatch, "worker", "--reset", "--new-version", "--topics", "in") == 2
    assert "--reset and --new-version: each gives up something else; choose one" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["worker --new-version", "reset --stream p0", "reset --to-archive -10m"])
def test_levels_that_learn_apart_begin_anew_together(monkeypatch, capsys, command):
    keyed = ("--set=hierarchy=keyed", "--set=engine.name=hcaea", "--set=stream=partition")
    assert run(monkeypatch, *command.split(), "--topics", "in", *keyed) == 2
    assert " is not available with hierarchy = keyed: roots and subtrees stand in two logs" in capsys.readouterr().err


def test_the_settings_are_shown_as_toml(printed):
    ranges = '{"geo.lat": [-90, 90]}'
    options = ["--input.topics", "t", '--input.features=["geo.lat"]', "--prepare.scale", "given"]
    shown = tomllib.loads(printed(run, "settings", *options, "--prepare.ranges", ranges).out)
    assert (shown["input"]["features"], shown["prepare"]["ranges"]) == (["geo.lat"], {"geo.lat": [-90.0, 90.0]})


def test_the_reference_needs_no_settings(printed):
    assert printed(run, "settings", "--reference").out == as_markdown()


def test_a_file_of_which_no_record_can_be_used_says_how_settings_are_made(tmp_path, monkeypatch, printed):
    (tmp_path / "own readings.csv").write_text("id,warm,wet\n" + "".join(f"r{n},{n % 7},{n % 5}\n" for n in range(12)))
    command = ["replay", "own readings.csv", "--output", "out", "--set", "input.features=id"]
    error = printed(run, *command, code=2).err
    assert "none of the 12 records of own readings.csv could be used (wrong_type 12)" in error
    assert "resonance produce 'own readings.csv' --dry-run --save-settings resonance.toml" in error
    # What it says is what helps, and later there are settings.
    assert run(monkeypatch, "produce", "own readings.csv", "--dry-run", "--save-settings", "resonance.toml") == 0
    assert "them: resonance produce 'own readings.csv' --dry-run\n" in printed(run, *command, code=2).err
    assert "replayed 12 records" in printed(run, "replay", "own readings.csv", "--output", "again").out
    # Without any settings it takes them itself.
    (tmp_path / "resonance.toml").unlink()
    said = printed(run, "replay", "own readings.csv", "--output", "third")
    assert "replayed 12 records" in said.out
    assert "input.features: warm, wet\n" in said.err
    assert "1 stream in the warm-up (12 of 16 records); prepare.warmup_records has how many it takes" in said.out
    assert "too few records of own-readings: alerts are raised from about 400 of a stream on, drift" in said.out
    assert "no incidents\n" in said.out


def test_what_the_notes_on_a_file_advise_is_taken_where_wanted(tmp_path, monkeypatch, printed):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    rows = [
        f"{1_700_000_000 + n},m {k},{(n * 7 + k) % 9 + 40 * (k == 1 and n >= 700)}%,{'?' if n % 9 else n % 50 / 7}"
        for n in range(1_000)
        for k in range(3)
    ]
    (tmp_path / "own.csv").write_text("ts,machine,load,heat\n" + "\n".join(rows) + "\n")
    for name, text, what in (
        ("none.csv", "a,b\n", "no records"),
        ("texts.csv", "a\nred\n", "no column holds numbers"),
        ("all.json", '{"data": [{"a": 1}, {"a": 2}]}', "no column holds numbers"),
    ):
        (tmp_path / name).write_text(text)
        error = printed(run, "replay", name, code=2).err
        assert f"{name}: {what}" in error
    assert "data holds several records; take them apart: jq -c '.data[]' FILE > NEW" in error
    for command in ("replay", "evaluate"):
        said = printed(run, command, "own.csv", "--yes")
        assert "taken: --null '?' --time ts --key machine --time-form %s --numbers\ninput.features: load\n" in said.err
        assert "p0:m 1: broke 2023-11-14 22:25:00, load 4" in said.out
    (incident,) = json.loads(printed(run, "replay", "own.csv", "--yes", "--json").out)["incidents"]
    assert incident["kind"] == "broke"
    assert "too few records" not in said.out
    assert not [*(tmp_path / "temporary").iterdir()]


@pytest.mark.parametrize(
    ("setting", "features"),
    [
        ('input.features=["load", "mode"]', ["load", "mode"]),
        ('prepare.categories={"mode": ["off", "on"]}', ["load", "heat", "mode"]),
        ("input.dimension=4", ["load", "heat"]),
    ],
)
def test_what_is_set_for_a_file_leaves_the_rest_to_be_found(tmp_path, printed, setting, features):
    rows = [
        {"at": f"2026-01-01T00:{n // 60:02}:00Z", "id": f"r{n}", "mode": ["off", "on"][n % 2], "label": "ab"[n % 2]}
        | {"load": n % 7 / 9 + 40 * (n % 2), "heat": n % 11 / 9 + 50 * (n % 2)}
        for n in range(600)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    printed(run, "replay", "own.jsonl", "-o", "out", "--set", setting)
    last = json.loads((tmp_path / "out" / "assignments.jsonl").read_text().splitlines()[-1])["value"]
    assert (last["id"], last["time"]) == ("r599", "2026-01-01T00:09:00.000Z")
    named = json.loads((tmp_path / "out" / "clusters.jsonl").read_text().splitlines()[-1])["value"]["centre"]
    assert list(dict.fromkeys(name.partition("=")[0] for name in named)) == features
    # Settings of a file say how a worker reads the records, so that no feature is found beside them.
    (tmp_path / "resonance.toml").write_text('[input]\ntopics = ["t"]\nfeatures = ["load"]\n')
    assert "own.jsonl" not in printed(run, "replay", "own.jsonl", "--set", "engine.valley=0.5").err


HEAVY = {"numpy", "numba", "faust", "aiokafka", "confluent_kafka", "pyarrow", "rich", "pydantic_settings"}
"""What commands work with and their options and help texts do not need."""


def test_help_imports_nothing_that_the_commands_work_with():
    code = """
import sys
from resonance.pipeline.cli.main import COMMANDS, app
app(["-h"], standalone_mode=False)
assert "resonance.pipeline.cli.worker" not in sys.modules
for name in COMMANDS:
    app([name, "-h"], standalone_mode=False)
print(*sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "Run a worker." in shown
    assert "--resume-from-snapshot" in shown
    assert not HEAVY & set(shown.splitlines()[-1].split())


def test_settings_are_checked_without_a_broker(tmp_path):
    # In a process of its own: nothing that the command needs is loaded there yet.
    (tmp_path / "own.toml").write_text('name = "own"\n[input]\ntopics = ["readings"]\n')
    command = [sys.executable, "-m", "resonance.pipeline.cli.main", "settings", "check", "--config", "own.toml"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout == "the settings can be used: deployment own, engine modal, input readings\n"
