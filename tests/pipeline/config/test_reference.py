"""The reference of the settings: complete, and in the documentation as it is in the program."""

import re
from pathlib import Path

from resonance.engine import ENGINES
from resonance.pipeline.config.reference import SettingReference, as_markdown, reference

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"


def test_the_page_in_the_documentation_is_what_the_program_says():
    assert PAGE.read_text() == as_markdown(), (
        "docs/settings.md is not up to date: .venv/bin/resonance settings --reference > docs/settings.md"
    )


def test_every_setting_is_explained_by_sentences():
    sections = reference()
    assert not [row for rows in sections.values() for row in rows if not row.meaning.endswith(".")]
    # Engines share names of parameters, sections do not share settings.
    rows = [row for name, rows in sections.items() if not name.startswith("engine: ") for row in rows]
    by_name = {row.name: row for row in rows}
    assert len(by_name) == len(rows) > 50
    for engine in ENGINES:
        own = [row.name for row in sections[f"engine: {engine}"]]
        assert len(set(own)) == len(own) > 1
    assert by_name["input.topics"] == SettingReference(
        "input.topics", "required", "Topics to read, all with the same number of partitions."
    )
    assert (by_name["delivery.commit_interval"].default, by_name["stream"].default) == ("0.1", "none")


def test_choices_and_ranges_are_reported():
    meaning = {row.name: row.meaning for rows in reference().values() for row in rows}
    assert meaning["worker.log_level"].endswith("One of debug, info, warning, error.")
    assert meaning["delivery.commit_interval"].endswith(". Above 0 to 60.")
    assert meaning["alerts.rarity"].endswith(". From 1,000.")
    assert "One of" not in meaning["delivery.mode"], "its meaning names them"
    assert meaning["engine.landmarks"].endswith(". 64-16,384.")
    assert meaning["engine.low"].endswith("have."), "its bounds are only there against overflows"
    assert meaning["dlq.max_share"].endswith("1: never."), "it is a share"


def test_the_parameters_of_every_engine_are_there():
    sections = reference()
    for engine in ENGINES.values():
        rows = [*sections["engine"], *sections.get(f"engine: {engine.name}", [])]
        assert {f"engine.{parameter.name}" for parameter in engine.parameters} <= {row.name for row in rows}


def test_the_page_explains_a_parameter_once_for_engines_that_share_it():
    page = as_markdown()
    assert page.count("beyond it the longest idle one goes") == len(("max_nodes", "max_clusters"))
    assert "### sa_art\n\nAs above: `engine.complement = false`, " in page
    assert page.count("`engine.vigilance = ") == page.count("`engine.age_max = ") == 1
    assert "### mlca_i\n\nAs with `mlca`.\n" in page
    assert re.search(r"### hcaea\n\nAs with `caea`, and:\n\n- `engine.max_depth = 3`", page)


def test_each_setting_is_one_line_with_its_default():
    page = as_markdown()
    items = [line for line in page.splitlines() if line.startswith("- ")]
    assert all(re.match(r"- `[a-z_.0-9]+( = .+)?`( \(required\))?: \S", line) for line in items)
    assert "- `input.topics` (required): Topics" in page
    assert '- `worker.web_host = "127.0.0.1"`: ' in page
    assert "- `input.id_path`: " in page
