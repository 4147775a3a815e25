"""Settings that describe the records already: what of a file does not fit them is named before it is sent."""

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.described import notes_on_settings
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.survey import FileSurvey

from tests.pipeline.commands import run

ROW = {"id": "a", "at": "2026-01-05T08:00:00Z", "latency_ms": 1.5, "cpu": 0.5}


def notes(rows, columns=Columns(), **given):  # noqa: B008 - nothing changes it
    described = {"topics": ["in"], "features": ["latency_ms", "cpu"], **given}
    prepare = described.pop("prepare", {})
    settings = Settings.of({"input": described, "prepare": prepare})
    return [str(note) for note in notes_on_settings(FileSurvey(rows), settings, columns)]


def rows(count=200, **more):
    return [
        ROW | {"latency_ms": n, "cpu": n / 7} | {name: make(n) for name, make in more.items()} for n in range(count)
    ]


def test_records_that_fit_give_no_note():
    assert notes(rows(), id_path="id", time_path="at") == []


def test_paths_that_no_record_has_are_named_with_the_nearest():
    there = "; it has id, at, latency_ms, cpu"
    said = notes(rows(), features=["latency", "cpu", "memory"], id_path="idd", time_path="at")
    assert said == [
        f"input.features names what no record has: latency (did you mean latency_ms?), memory{there}",
        f"input.id_path names what no record has: idd (did you mean id?){there}",
    ]
    assert notes(rows(x=lambda _: {"b": 1}), features=["x.c"], time_path="at") == [
        f"input.features names what no record has: x.c (did you mean x.b?){there}, x.b"
    ]
    assert notes(rows(x=lambda _: [1, 2]), features="x", time_path="at") == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (lambda n: "N/A" if n % 50 == 0 else n, "cpu is no number in 4 of 200 records, such as 'N/A'"),
        (str, "cpu is no number in 200 of 200 records, such as '0', a number as text; read as numbers: --numbers"),
        (lambda _: "high", "cpu is no number in 200 of 200 records, such as 'high'"),
        (lambda n: None if n % 4 == 0 else n, "missing: cpu in 50 of 200 records: these would be dead letters"),
        (lambda _: 3, "features that separate nothing: cpu (3 in all records)"),
    ],
)
def test_features_that_cannot_be_used_are_named(values, said):
    (note,) = notes(rows(cpu=values), time_path="at")
    assert note.startswith(said)


def test_what_the_settings_allow_is_no_note():
    some = rows(cpu=lambda n: None if n % 4 == 0 else n, kind=lambda n: "ab"[n % 2], other=lambda _: "text")
    kinds = {"missing": "mean", "categories": {"kind": ["a", "b"]}}
    assert notes(some, features=["latency_ms", "cpu", "kind"], time_path="at", prepare=kinds) == []


def test_times_are_named_where_outputs_would_not_have_them():
    (unset,) = notes(rows())
    assert "input.time_path is not set" in unset and "--time at" in unset
    assert notes(rows(), Columns(time=("at",))) == []
    (unreadable,) = notes(rows(at=lambda _: "2026-01-05 08:00:00"), time_path="at")
    assert "times that input.time_path cannot read" in unreadable


def test_the_notes_come_before_anything_is_sent(monkeypatch, tmp_path, printed):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("id,latency_ms\n" + "".join(f"r{n},{n}\n" for n in range(200)))
    (tmp_path / "labels.jsonl").write_text('{"id": "r1", "labels": ["a"]}\n')
    text = 'stream = "topic"\n[input]\ntopics = ["in"]\nfeatures = ["latency"]\nid_path = "id"\n'
    (tmp_path / "resonance.toml").write_text(text + '[labels]\ntopic = "late"\n[engine]\nname = "mlca"\n')
    said = printed(run, "produce", "in.csv", "--dry-run").err
    assert "note: input.features names what no record has: latency (did you mean latency_ms?)" in said
    assert "resonance.toml" not in said
    assert "note" not in printed(run, "produce", "labels.jsonl", "--topic", "late", "--dry-run").err
