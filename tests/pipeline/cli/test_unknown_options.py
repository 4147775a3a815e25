"""An option that does not exist leads to the one that was meant."""

import pytest

from tests.pipeline.commands import run


def error(monkeypatch, capsys, line):
    assert run(monkeypatch, *line.split()) == 2
    return capsys.readouterr().err.strip().splitlines()[-1].removeprefix("Error: No such option: ")


@pytest.mark.parametrize("option", ["--bootstrap", "--bootstrap-servers", "--brokers", "--servers", "--kafka"])
def test_every_command_with_a_broker_says_which_option_names_it(monkeypatch, capsys, option):
    for name in ("produce", "worker", "dlq list", "topics plan"):
        offered = f"{option} (did you mean --broker or --broker.bootstrap?)"
        assert error(monkeypatch, capsys, f"{name} {option} kafka:9092") == offered, name


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("worker --topic a", "--topics or --input.topics"),
        ("worker --conf a.toml", "--config"),
        ("worker --group a", "--name"),
        ("worker -b kafka:9092", "--broker or --broker.bootstrap"),
        ("replay a.csv --output-dir a", "--output"),
        ("page --web-port 80", "--port"),
        ("worker --topcis a", "--topics"),
        ("--verison", "--version"),
        ("settings check --bootstrap a", "--broker or --broker.bootstrap"),
        ("produce a.csv --id-path a", "--input.id_path"),
        ("worker --valley 0.4", "--engine.valley"),
        ("worker --vally 0.4", "--engine.valley"),
        ("worker --engine modal", "--engine.name"),
        ("worker --start latest", "--set start=..."),
        ("topics plan --stream key", "--set stream=... or --limits.streams"),
        # Not --reset, which is spelt alike.
        ("worker --preset a", "--engine.preset"),
        ("worker --drift no", "--drift.detect or --drift.rarity"),
    ],
)
def test_an_option_of_another_name_is_offered_and_so_is_a_setting(monkeypatch, capsys, line, meant):
    assert error(monkeypatch, capsys, line).endswith(f"(did you mean {meant}?)")


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("produce --file a.csv", "write it without an option: resonance produce FILE..."),
        ("evaluate --input a.csv", "write it without an option: resonance evaluate SOURCE"),
    ],
)
def test_what_is_no_option_here_is_placed(monkeypatch, capsys, line, where):
    assert error(monkeypatch, capsys, line).endswith(f"; {where}")


def test_an_option_like_no_other_is_only_unknown(monkeypatch, capsys):
    assert error(monkeypatch, capsys, "worker --xyzzy") == "--xyzzy"
