"""No command prints a secret that it was given."""

import sys
from typing import get_args

import pytest
from pydantic import SecretStr
from resonance.pipeline.cli import main, plans
from resonance.pipeline.config.fields import Fields
from resonance.pipeline.config.messages import masked, secrets

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC

SECRET = "hunter2"  # noqa: S105
WAYS = ("--set {}={}", "--set={}={}", "-s {}={}", "-s{}={}", "--{}={}", "--{} {}", "--set {}\t={}")


def test_settings_are_secret_by_their_type():
    found = {
        f"{section}.{name}" for section, field in Fields.model_fields.items() for name in of_type(field.annotation)
    }
    assert secrets() == found | {"broker.librdkafka", "schema_registry.client"}
    assert found == {"worker.web_token", "page.token", "alerts.token"}


def of_type(section):
    return [
        name for name, field in getattr(section, "model_fields", {}).items() if SecretStr in get_args(field.annotation)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_no_command_line_is_shown_with_a_secret(monkeypatch, way):
    for name in (*secrets(), "broker.librdkafka.sasl.password"):
        monkeypatch.setattr(sys, "argv", ["resonance", "reset", *way.format(name, f"{SECRET}\n{SECRET}").split(" ", 1)])
        shown = main.command_line()
        assert SECRET not in shown
        assert name in shown
        assert plans._command() == "the same command with --yes"


def test_other_words_stay():
    words = ["--set", "input.topics=a", "--config", "password.toml"]
    assert masked(words) == words


@pytest.mark.parametrize("name", ["broker.librdkafka.sasl.password", "worker.web_token", "page.token"])
def test_a_plan_is_shown_without_the_secret(monkeypatch, command, name, printed):
    MemoryDeployment(monkeypatch).work(10)
    for form in ((), ("--json",)):
        shown = "".join(printed(run, "reset", "--topics", TOPIC, "--set", f"{name}={SECRET}", *form))
        assert "the same command with --yes" in shown
        assert SECRET not in shown


@pytest.mark.parametrize("name", [*sorted(secrets()), "broker.librdkafka.ssl.key.pem"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_settings_are_shown_without_the_secret(monkeypatch, capsys, name, form):
    monkeypatch.setattr(
        sys, "argv", ["resonance", "settings", "--set", "input.topics=a", "--set", f"{name}={SECRET}", *form]
    )
    with pytest.raises(SystemExit):
        main.main()
    assert SECRET not in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["worker.web_token", "page.token"])
@pytest.mark.parametrize("token", [f"{SECRET}\n", f" {SECRET}", f"{SECRET}é", f"a\r\n{SECRET}"])
def test_a_token_that_no_header_can_hold_is_refused_unseen(monkeypatch, capsys, name, token):
    monkeypatch.setenv(f"RESONANCE_{name.upper().replace('.', '__')}", token)
    monkeypatch.setattr(sys, "argv", ["resonance", "settings", "--set", "input.topics=a"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    shown = "".join(capsys.readouterr())
    assert (ended.value.code, SECRET in shown) == (2, False)
    assert f"{name} = **********" in shown
