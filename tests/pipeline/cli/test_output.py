"""Results fit a terminal, and are whole lines elsewhere."""

import json
import re
import sys
from pathlib import Path

import pytest
from resonance.pipeline.cli import main
from resonance.pipeline.cli.output import fitted, footnote, print_json, print_line, print_table, say
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.logs import printable

from tests.pipeline.commands import run

ID = "p12:a-device-with-a-long-name-of-its-own/1/1234"
TEXT = f"{ID} is new: 67 records after it emerged it held 10.4 % of the recent ones, more than others"
ROW = ("2026-03-05 03:22:00", "info", "new_cluster", TEXT)
COLUMNS = ["since", "severity", "rule", "what"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_lines_and_tables_are_wrapped_at_words_on_a_terminal(monkeypatch, capsys, width):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    first, *more = fitted(f"2026-03-05 03:22:00  alerts  {TEXT}", 21)
    assert "".join([first, *(line.removeprefix(" " * 20) for line in more)]).endswith(TEXT)
    assert all(line.startswith(" " * 21) and line[21] != " " for line in more)
    assert max(map(len, (first, *more))) <= max(width, 21 + len(ID))
    print_table(COLUMNS, [ROW])
    lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    # The columns before are 49 wide; a longer id takes the room that it needs.
    assert max(map(len, lines)) <= max(width, 49 + len(ID))
    for found in ([first, *more], lines):
        assert any(ID in line for line in found)
        assert len(found) > 2 or width == 200


def test_a_pipe_gets_whole_lines(capsys):
    print_table(COLUMNS, [ROW])
    assert capsys.readouterr().out.splitlines()[1].split("  ")[-1] == TEXT
    assert fitted(TEXT, 21) == [TEXT]


def test_what_is_beneath_a_table_is_in_the_file_that_has_the_table_and_no_json_has_it(monkeypatch, capsys):
    print_table(["n"], [(1,)])
    footnote("n: a number")
    assert capsys.readouterr() == ("n\n1\nn: a number\n", "")
    footnote("n: a number", as_json=True)
    assert capsys.readouterr() == ("", "n: a number\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "12")
    footnote("one two three four")
    assert capsys.readouterr().out == "one two\n  three four\n"


HOSTILE = (
    "a\x1b]0;title\x07\x1b]52;c;QQ==\x1b\\\n2026-01-01 00:00:00  forged\r\x9b31m\x7f\u202e\u2066\u2028[bold]\ud83d"
)
SEEN = r"a\x1b]0;title\x07\x1b]52;c;QQ==\x1b\\n2026-01-01 00:00:00  forged\r\x9b31m\x7f\u202e\u2066\u2028[bold]\ud83d"


@pytest.mark.parametrize("terminal", [True, False])
def test_content_of_records_is_text_and_nothing_that_a_terminal_obeys(monkeypatch, capsys, terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "400")
    print_table([HOSTILE], [(HOSTILE,)])
    print_line(HOSTILE)
    footnote(HOSTILE)
    say(HOSTILE, "and a line of our own")
    found = capsys.readouterr()
    lines = re.sub(r"\x1b\[\d*m", "", found.out).splitlines()
    assert [line.strip() for line in lines] == [SEEN] * 4
    assert found.err == f"{SEEN}\nand a line of our own\n"


def test_json_has_the_same_content_in_escapes_of_its_own(capsys):
    content = {"id": HOSTILE[:-1] + "\U000e0041é"}
    print_json(content)
    text = capsys.readouterr().out
    assert json.loads(text) == content
    assert "é" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "text", ["Zürich", "東京", "قلعه‌گنج", "👩‍👩‍👧 ✔️", "a b", r"C:\temp", "p0:a%20b/1/3", "50 % ± 3 → 4"]
)
def test_names_of_all_languages_stay_as_they_are(text):
    assert printable(text) == text


def test_an_error_shows_content_in_its_own_lines_only(monkeypatch, printed):
    def fails(*_, **__):
        raise ConfigurationError(f"no stream {HOSTILE}", "  one choice")

    monkeypatch.setattr(main, "app", fails)
    assert printed(run, "watch", code=2).err == f"error: no stream {SEEN}\n  one choice\n"


def test_all_text_leaves_by_the_doors_that_escape_it():
    doors = {"cli/output.py", "cli/main.py", "cli/settings.py", "cli/watch.py"}
    root = Path(main.__file__).parents[1]
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"(?m)^ *(typer\.echo|print|sys\.std(out|err)\.write)\(", path.read_text())
    }
    assert found <= doors
