"""Settings come from flags, the environment, a file and defaults; an error names the one where it is."""

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError

from tests.pipeline.config.minimal import MINIMAL


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(monkeypatch, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text(
        'name = "file"\n[input]\ntopics = ["file"]\n[limits]\nstreams = 1\nmemory = 500000000\n[worker]\nweb_port = 1\n'
    )
    monkeypatch.setenv("RESONANCE_INPUT__TOPICS", "env-a, env-b")
    monkeypatch.setenv("RESONANCE_LIMITS__STREAMS", "2")
    monkeypatch.setenv("RESONANCE_NAME", "env")
    settings = Settings.load(file, {"limits.streams": "3", "worker": {"id": "w1"}, "output.envelope": None})
    assert (settings.limits.streams, settings.limits.memory, settings.limits.record_bytes) == (
        3,
        500_000_000,
        1_000_000,
    )
    assert settings.input.topics == ("env-a", "env-b")
    assert settings.name == settings.group == "env"
    assert (settings.worker.web_port, settings.worker_id) == (1, "w1")


def test_the_file_of_the_working_folder_is_read(tmp_path):
    (tmp_path / "resonance.toml").write_text('[input]\ntopics = ["here"]\n')
    assert Settings.load().input.topics == ("here",)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"absent\.toml: the settings cannot be read \(No such file"):
        Settings.load(tmp_path / "absent.toml")


def test_a_file_of_a_windows_editor_is_read_or_told_how_to_be_saved(tmp_path):
    text, file = 'name = "straße"\n[input]\ntopics = ["in"]\n', tmp_path / "shop.toml"
    file.write_text(text, encoding="utf-8-sig")
    assert Settings.load(file, {"name": "shop"}).input.topics == ("in",)
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        file.write_text(text, encoding=encoding)
        with pytest.raises(ConfigurationError, match=r"shop\.toml: not UTF-8 but UTF-16, .* save the file as UTF-8"):
            Settings.load(file)
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigurationError, match=r"shop\.toml:1: not TOML: a character that is not UTF-8"):
        Settings.load(file)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b'[input]\ntopics = "a\n', r"shop\.toml:2: not TOML: illegal character .*, at column 12; correct it"),
        (b"name = 'a'\n[input\n", r"shop\.toml:2: not TOML: expected ']' .*, at column 7"),
        (b"name = 'a'\n# \xff\n", r"shop\.toml:2: not TOML: a character that is not UTF-8"),
        (b"[input]\ntopics = [", r"shop\.toml: not TOML: .*\(at end of document\)"),
    ],
)
def test_a_file_that_is_not_toml_names_the_line(text, shown, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_bytes(text)
    with pytest.raises(ConfigurationError, match=shown):
        Settings.load(file)


def test_text_from_the_environment_becomes_lists_tables_and_numbers(monkeypatch):
    for name, value in {
        "INPUT__TOPICS": '["a"]',
        "INPUT__FEATURES": "latency_ms,geo.lat,country",
        "INPUT__DIMENSION": "none",
        "PREPARE__SCALE": "given",
        "PREPARE__RANGES": '{"latency_ms": [0, 500], "geo.lat": [-90, 90]}',
        "PREPARE__CATEGORIES": '{"country": ["DE", "FR"]}',
        "PREPARE__MISSING": "1.5",
        "ENGINE__LANDMARKS": "400",
        "TOPICS__CREATE": "false",
    }.items():
        monkeypatch.setenv(f"RESONANCE_{name}", value)
    settings = Settings.load()
    assert settings.features == ("latency_ms", "geo.lat", "country")
    assert settings.prepare.ranges == {"latency_ms": (0.0, 500.0), "geo.lat": (-90.0, 90.0)}
    assert (settings.prepare.categories, settings.prepare.missing) == ({"country": ("DE", "FR")}, 1.5)
    assert (settings.input.dimension, settings.engine_parameters["landmarks"]) == (None, 400)
    assert settings.topics.create is False


def test_required_settings_say_the_three_ways_to_set_them(tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text('name = "shop"\n')
    for named, reason in ((None, "there is no resonance.toml in this folder"), (file, f"{file} does not have it")):
        with pytest.raises(ConfigurationError) as caught:
            Settings.load(named)
        assert str(caught.value) == (
            f"input.topics is not set ({reason}): set it in the file, as RESONANCE_INPUT__TOPICS in the environment, "
            "or as --input.topics a,b on the command line"
        )


def test_the_origin_of_a_value_is_reported(monkeypatch, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text('[input]\ntopics = ["a"]\n[limits]\nstreams = 0\n[engine]\nlambda = 1\n')
    with pytest.raises(ConfigurationError, match=r"limits\.streams = 0 \(in .*shop\.toml\): must be at least 1"):
        Settings.load(file)
    monkeypatch.setenv("RESONANCE_LIMITS__STREAMS", "-1")
    with pytest.raises(ConfigurationError, match=r"limits\.streams = '-1' \(from RESONANCE_LIMITS__STREAMS\)"):
        Settings.load(file)
    with pytest.raises(ConfigurationError, match=r"limits\.streams = '-2' \(on the command line\)"):
        Settings.load(file, {"limits.streams": "-2"})
    with pytest.raises(ConfigurationError, match=r"engine\.lambda = 1 \(in .*shop\.toml\)"):
        Settings.load(file, {"limits.streams": "2"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("RESONANCE_SERVICE_HOST", "10.0.0.1"), ("RESONANCE_SERVICE_PORT_HTTP", "6066")),
        *(("RESONANCE_PORT", "tcp://10.0.0.1:6066"), ("RESONANCE_PORT_6066_TCP_ADDR", "10.0.0.1")),
        *(("RESONANCE_WORKER_PORT_6066_TCP", "tcp://10.0.0.1:6066"), ("RESONANCE_FAULT_POINT", "after-begin")),
    ],
)
def test_variables_of_a_kubernetes_service_and_of_the_tests_are_none_of_ours(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    Settings.load(flags=MINIMAL)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RESONANCE_INPTU__TOPICS", r"there is no such setting \(did you mean RESONANCE_INPUT__TOPICS\?\)"),
        ("RESONANCE_STRAEM", r"did you mean RESONANCE_STREAM\?"),
        ("RESONANCE_NAEM", r"did you mean RESONANCE_NAME\?"),
        ("RESONANCE_WORKER_WEB_PORT", r"did you mean RESONANCE_WORKER__WEB_PORT\?"),
        ("RESONANCE_INPUT_TOPICS", r"did you mean RESONANCE_INPUT__TOPICS\?"),
        ("RESONANCE_ENGINE_VALLEY", r"did you mean RESONANCE_ENGINE__VALLEY\?"),
        ("RESONANCE_ENGINE_TAU", r"there is no such setting; "),
        ("RESONANCE_WARMUPP", r"did you mean RESONANCE_PREPARE__WARMUP_RECORDS\?"),
        ("RESONANCE_PREPARE_WARMUPP", r"did you mean RESONANCE_PREPARE__WARMUP_RECORDS\?"),
        ("RESONANCE_XYZZY", r"there is no such setting; name, stream, .*two underscores \(RESONANCE_INPUT__TOPICS\)"),
    ],
)
def test_every_other_variable_with_the_prefix_is_refused(name, text, monkeypatch):
    monkeypatch.setenv(name, "7077")
    with pytest.raises(ConfigurationError, match=f"^{name}: .*{text}"):
        Settings.load(flags=MINIMAL)


def test_an_unknown_name_in_a_section_is_refused_wherever_it_was_given(monkeypatch):
    monkeypatch.setenv("RESONANCE_INPUT__FEATRUES", "a")
    with pytest.raises(ConfigurationError, match=r"input\.featrues \(from RESONANCE_INPUT__FEATRUES\).*features\?"):
        Settings.load(flags=MINIMAL)
