"""Files beside settings that describe their records: how a file is read is found all the same."""

import random
import tomllib

import pytest
from resonance.pipeline.replay import bootstrapping

from tests.pipeline.commands import run


@pytest.fixture(params=["device", "device's no"])
def name(tmp_path, request):
    rows = [f"2026-01-01 0{n // 60}:{n % 60:02}:00,m{k},{(7 * n + k) % 9 / 7}" for n in range(500) for k in range(3)]
    (tmp_path / "own.csv").write_text("\n".join([f"at,{request.param},load", *rows]) + "\n")
    return request.param


@pytest.mark.parametrize("command", ["replay", "evaluate"])
@pytest.mark.parametrize("saved", [False, True])
def test_the_key_and_the_times_of_a_file_are_found_with_and_without_settings(tmp_path, printed, name, command, saved):
    if saved:
        assert printed(run, "produce", "own.csv", "--yes", "--dry-run", "--save-settings", "resonance.toml")
        assert tomllib.loads((tmp_path / "resonance.toml").read_text())["stream"] == "key"
        error = printed(run, command, "own.csv", code=2).err.splitlines()[-1]
        assert "--key " in error and name.replace("'", "'\"'\"'") in error
    said = printed(run, command, "own.csv", "--yes")
    assert "taken: --time at --key " in said.err
    assert "no_key" not in said.out


@pytest.mark.parametrize("command", ["replay", "evaluate"])
def test_bad_lines_that_are_left_out_and_missing_values_are_counted(tmp_path, printed, command):
    lines = [f'{{"x": {n % 9 / 7}, "y": {n / 7 % 1 if n > 4 else "null"}}}' for n in range(300)]
    (tmp_path / "own.jsonl").write_text("\n".join([*lines, "{oops", "nope"]))
    said = printed(run, command, "own.jsonl", "--skip-bad").err
    assert "left out: 2 bad lines\n" in said
    assert "missing: y in 5 of 300 records (prepare.missing)\n" in said


@pytest.mark.parametrize("command", ["replay", "evaluate", "produce"])
def test_a_few_bad_lines_are_left_out_where_advice_is_taken_and_stop_a_file_otherwise(tmp_path, printed, command):
    options = ["--dry-run"] if command == "produce" else []
    lines = [f"{n % 9 / 7},{n % 5 / 3}" for n in range(300)]
    (tmp_path / "own.csv").write_text("\n".join(["x,y", *lines, "1,2,3", *lines]))
    assert "own.csv, line 302: 3 cells" in printed(run, command, "own.csv", *options, code=66).err
    said = printed(run, command, "own.csv", "--yes", *options)
    assert "note: 1 bad line, the first: own.csv, line 302: 3 cells" in said.err
    assert "leave such lines out: --skip-bad\n" in said.err
    (tmp_path / "own.csv").write_text("\n".join(["x,y", *lines, *["1,2,3"] * 30]))
    assert "line 302: 3 cells" in printed(run, command, "own.csv", "--yes", *options, code=66).err


def test_what_is_left_of_a_note_after_its_option_is_taken_is_not_said_again(tmp_path, printed):
    (tmp_path / "own.csv").write_text("x,y\n" + "".join(f"{n},1.5\n" for n in ["N/A", "5 kg", *range(40)]))
    said = printed(run, "replay", "own.csv", "--yes").err.splitlines()
    assert ["a unit" in line for line in said if line.startswith("note: x is")] == [True, False]


def test_what_is_left_out_is_said_of_the_options_that_are_taken(tmp_path, printed):
    rows = [(f"{n % 97 / 7:.2f}", 1 + n % 9) if n % 50 else ("N/A" if n else -99, -99) for n in range(300)]
    rows = [(-99, -99) if n % 90 == 9 else row for n, row in enumerate(rows)]
    (tmp_path / "own.csv").write_text("age,grade\n" + "".join(f"{age},{grade}\n" for age, grade in rows))
    assert "left out of the features: grade" in printed(run, "replay", "own.csv").err
    said = printed(run, "replay", "own.csv", "--yes").err
    assert "features: age, grade\n" in said and "left out of" not in said


def test_a_key_that_is_not_found_is_named_as_missing(tmp_path, printed):
    (tmp_path / "few.csv").write_text("a,b\n1,2\n")
    error = printed(run, "replay", "few.csv", "--yes", "--set", "stream=key", code=2).err
    assert 'few.csv: no column is the key, and stream = "key" needs one: --key COLUMN' in error


@pytest.mark.parametrize("settings", ["", '[input]\ntopics = ["t"]\nfeatures = ["wet"]\n'])
def test_one_column_is_a_list_of_one_and_a_column_that_is_not_there_stops_at_once(tmp_path, printed, settings):
    (tmp_path / "own.csv").write_text("warm_c,wet\n" + "".join(f"{n % 7},{n % 5}\n" for n in range(20)))
    (tmp_path / "resonance.toml").write_text(settings)
    assert "20 records" in printed(run, "replay", "own.csv", "--set", "input.features=warm_c").out
    for wrong in ("warm", "wet,warm"):
        error = printed(run, "replay", "own.csv", "--set", f"input.features={wrong}", code=2).err
        assert "own.csv has no column warm (did you mean warm_c?); it has warm_c, wet" in error


@pytest.mark.parametrize("described", ["", '[input]\ntopics = ["own"]\nfeatures = ["load"]\n'])
@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [
        *((f"input.{name}", "ide", "id") for name in ("id_path", "time_path", "text_path")),
        ("output.include", "id,kidn", "kind"),
        ("stream", "field:kidn", "kind"),
    ],
)
def test_a_path_that_no_record_has_is_refused_on_the_command_line_and_else_noted(
    tmp_path, printed, monkeypatch, described, setting, value, meant
):
    rows = [f"i{n},{'ab'[n % 2]},{n % 7 / 3}\n" for n in range(200)]
    (tmp_path / "own.csv").write_text("id,kind,load\n" + "".join(rows))
    (tmp_path / "resonance.toml").write_text(described)
    wrong = value.rpartition(":" if setting == "stream" else ",")[2]
    there = "id, kind, load"
    for command in ("replay", "evaluate", "produce", "bootstrap"):
        said = printed(run, command, "own.csv", "--yes", "--topics", "own", "--set", f"{setting}={value}", code=2).err
        (shown,) = [line for line in said.splitlines() if line.startswith("error")]
        whole = f"field:{wrong}" if setting == "stream" else wrong
        assert shown == (
            f"error: {setting} = {whole}: own.csv has no column {wrong} (did you mean {meant}?); it has {there}"
        )
    monkeypatch.setenv("RESONANCE_" + setting.replace(".", "__").upper(), value)
    note = f"note: {setting} names what no record has: {wrong} (did you mean {meant}?); it has {there}"
    assert note in printed(run, "produce", "own.csv", "--yes", "--dry-run").err.splitlines()


def test_settings_of_the_command_line_are_saved_and_not_advised_again(tmp_path, printed):
    rows = [f"{n % 7 / 3},please help me with number {n * 7}\n" for n in range(200)]
    (tmp_path / "own.csv").write_text("x,subject\n" + "".join(rows))
    more = ["--input.text_path", "subject", "--set", "engine.valley=0.5", "--set", "stream=partition"]
    said = printed(run, "produce", "own.csv", "--dry-run", "--save-settings", "own.toml", *more).err
    text = (tmp_path / "own.toml").read_text()
    found = tomllib.loads(text)
    assert (found["input"]["text_path"], found["engine"], found["stream"]) == ("subject", {"valley": 0.5}, "partition")
    assert "gives clusters keywords" not in text + said


@pytest.mark.parametrize("stream", ["key", "partition", None])
def test_bootstrap_finds_the_features_of_a_file_and_keeps_the_name_and_the_topic(
    tmp_path, printed, name, monkeypatch, stream
):
    learned = []
    monkeypatch.setattr(bootstrapping, "bootstrap", lambda *given, **_: learned.append(given) or [])
    (tmp_path / "shop.toml").write_text("[limits]\nstreams = 9\n")
    arguments = ["bootstrap", "own.csv", "--yes", "--name", "shop", "--topics", "live", "--config", "shop.toml"]
    shown = printed(run, *arguments, *(["--set", f"stream={stream}"] if stream else []))
    ((settings, file, _),) = learned
    assert (settings.name, settings.input.topics, settings.stream) == ("shop", ("live",), stream or "key")
    assert (settings.input.features, file.columns.key, file.columns.time) == (("load",), (name,), ("at",))
    given = """--set stream={} --set 'input.features=["load"]' --set name=shop --set input.topics=live"""
    assert f"`resonance worker --config shop.toml {given.format(stream or 'key')}` goes on as group shop" in shown.out
    error = printed(run, "bootstrap", "own.csv", code=2).err
    assert error.startswith("error: input.topics is not set: what is learned of own.csv is for workers that read a")


@pytest.mark.parametrize("options", [(), ("--yes",)])
def test_the_column_of_the_key_is_named_once(tmp_path, printed, options):
    values = [(60 * k + n / 40 + n * (7 + k) % 9 / 90, n, k) for n in range(1_500) for k in range(2)]
    rows = [f"T{k},{'Bad' if n % 97 == 9 else value},{1_770_000_000_000 + 1000 * n + k}" for value, n, k in values]
    (tmp_path / "own.csv").write_text("\n".join(["tag,value,at", *rows]) + "\n")
    said = printed(run, "replay", "own.csv", *options).err.splitlines()
    (note,) = [line for line in said if line.startswith("note: tag names")]
    assert note.endswith("(value goes on with each of 2); a model for each: --key tag")


def test_texts_that_settings_make_features_are_not_left_out(tmp_path, printed):
    rows = [f"{n % 97 / 7:.2f},{'abc'[n * n % 3]},{'de'[n % 5 % 2]}" for n in range(300)]
    (tmp_path / "own.csv").write_text("\n".join(["x,program,shop", *rows]) + "\n")
    said = printed(run, "replay", "own.csv").err
    assert (
        "left out: program, shop (no number, so a change in them is not seen; prepare.categories takes them)\n" in said
    )
    said = printed(run, "replay", "own.csv", "--set", 'prepare.categories={"program": ["a", "b"]}').err
    assert "left out: shop (no number, so a change in it is not seen; prepare.categories takes it)\n" in said
    assert "input.features: x, program\n" in said


def test_who_names_categories_names_all_flags(tmp_path, printed):
    rows = [f"{n % 97 / 7:.2f},{'abc'[n * n % 3]},{str(n % 20 > 0).lower()}" for n in range(300)]
    (tmp_path / "own.csv").write_text("\n".join(["x,program,ok", *rows]) + "\n")
    assert "input.features: x, ok\n" in printed(run, "replay", "own.csv").err
    said = printed(run, "replay", "own.csv", "--set", 'prepare.categories={"program": ["a", "b", "c"]}').err
    assert "input.features: x, program\n" in said
    said = printed(run, "evaluate", "own.csv", "--truth", "ok").err
    assert "input.features: x\n" in said


def test_the_line_on_streams_that_are_too_short_names_what_compares_them(tmp_path, printed):
    draw = random.Random(4)
    times = [1_770_000_000_000 + 60_000 * n for n in range(90)]
    rows = [f"{at},f{k},{draw.gauss(4 + (k == 4), 0.1)},{draw.gauss(3, 0.1)}" for at in times for k in range(12)]
    (tmp_path / "own.csv").write_text("\n".join(["at,farm,fat,protein", *rows]) + "\n")
    said = printed(run, "replay", "own.csv", "--yes")
    assert (
        "too few of each for a model of its own; to compare them all the same, with --set stream=key: --key farm\n"
        in said.err
    )
    assert "f4" not in said.out
    assert "p0:f4" in printed(run, "replay", "own.csv", "--yes", "--set", "stream=key").out


def test_a_key_that_proves_certain_once_numbers_are_read_is_named_once(tmp_path, printed):
    values = [(60 * k + n / 40 + n * (7 + k) % 9 / 90, n, k) for n in range(1_500) for k in range(2)]
    rows = [f"T{k},{value:.3f} kN,{1_770_000_000_000 + 1000 * n + k}" for value, n, k in values]
    (tmp_path / "own.csv").write_text("\n".join(["lot,value,at", *rows]) + "\n")
    said = printed(run, "replay", "own.csv", "--yes").err.splitlines()
    (note,) = [line for line in said if line.startswith("note: lot names")]
    assert note.endswith("(value goes on with each of 2); a model for each: --key lot")


def test_the_id_is_named_unless_settings_do(tmp_path, printed):
    (tmp_path / "own.csv").write_text("\n".join(["x,row_id", *(f"{n % 97 / 7:.2f},r{n}" for n in range(300))]) + "\n")
    assert "input.id_path: row_id\n" in printed(run, "replay", "own.csv").err
    assert "input.id_path" not in printed(run, "replay", "own.csv", "--set", "input.id_path=x").err
