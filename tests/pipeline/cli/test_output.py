"""Results fit a terminal, and are whole lines elsewhere."""

import re
import sys

import pytest
from resonance.pipeline.cli.output import fitted, footnote, print_table

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
