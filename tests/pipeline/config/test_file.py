"""Settings written as a file: what the worker reads from it is what it was written from."""

import re
import tomllib

import pytest
from resonance.pipeline.config.file import as_toml
from resonance.pipeline.config.settings import Settings

TRICKY = 'a "b" \\ c = [d] # é\t\n\x00\x7f'
"""What TOML reads otherwise when it stands bare."""


@pytest.mark.parametrize(
    "values",
    [
        {},
        {
            "input.features": ["geo.lat", "latency_ms", "kind"],
            "prepare.scale": "given",
            "prepare.ranges": {"geo.lat": [-90, 90], "latency_ms": [0, 1e16]},
            "prepare.log1p": ["latency_ms"],
            "prepare.categories": {"kind": ["DE", TRICKY]},
            "prepare.missing": 1.5,
        },
        {"prepare.categories": {TRICKY.replace("[d]", ""): ["x"], "": ["y"], "a.b": ["z"]}, "prepare.scale": "none"},
        {"engine.name": "hcaea", "engine.max_depth": "none", "engine.min_child_records": 8, "engine.preset": "paper"},
        {"stream": "key", "topics.create": False, "output.include": ["a.b", "c"]},
    ],
    ids=["defaults", "ranges", "categories", "engine", "others"],
)
def test_what_is_printed_is_read_back_as_it_was(values, tmp_path):
    settings = Settings.of({"input.topics": ["features"], **values})
    file = tmp_path / "printed.toml"
    file.write_text(as_toml(settings.dump()))
    again = Settings.load(file)
    assert (again.dump(), again.engine_parameters) == (settings.dump(), settings.engine_parameters)


def test_keys_are_quoted_where_they_must_be():
    values = {"plain_key-1": 1, "geo.lat": 2, "": 3, TRICKY: {"x y": [True, "a"], "é": {"deep": None}}}
    assert tomllib.loads(as_toml(values)) == {**values, TRICKY: {"x y": [True, "a"], "é": {}}}
    assert as_toml({"plain_key-1": 1}) == "plain_key-1 = 1\n"


def test_what_is_derived_is_a_comment_with_its_value():
    settings = Settings.of({"input.topics": ["features"], "name": "shop", "worker.web_port": 7001})
    text = as_toml(settings.dump(), settings.derived())
    assert re.search(r'^# id = ".*-7001" \(derived\)$', text, re.MULTILINE)
    assert 'pattern = "{name}.{kind}"\n' in text
    assert "id" not in tomllib.loads(text)["worker"]


def test_what_is_not_set_and_what_is_secret_are_comments():
    given = {"broker.librdkafka.sasl.password": "hunter2", "broker.librdkafka.sasl.username": "me"}
    text = as_toml(Settings.of({"input.topics": ["features"], **given}).dump())
    assert '# "sasl.password" is set, and not shown\n' in text
    assert "# token is not set\n" in text
    assert tomllib.loads(text)["broker"]["librdkafka"] == {"sasl.username": "me"}
