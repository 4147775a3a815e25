"""Log lines for people and for machines."""

import json
import logging
import re
import subprocess
import sys
from subprocess import PIPE

import pytest
from resonance.pipeline import logs


@pytest.fixture(autouse=True)
def _restored():
    root = logging.getLogger()
    before = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in logs.LIBRARIES}
    yield
    root.handlers[:], root.level = before[0], before[1]
    for name, level in before[2].items():
        logging.getLogger(name).setLevel(level)


def written(capsys):
    for handler in logging.getLogger().handlers:
        handler.flush()
    return capsys.readouterr().err


def say(level, message, *values, error=None, **extra):
    logging.getLogger("resonance.pipeline.worker.worker").log(level, message, *values, exc_info=error, extra=extra)


def test_lines_of_json_carry_what_the_line_is_about(capsys):
    logs.configure("info", "json")
    say(logging.INFO, "%s[%d] goes on", "in", 3, **logs.at("in", 3, 17))
    say(logging.DEBUG, "unseen")
    say(logging.WARNING, 'a "quoted"\nline', thing=object)
    first, second = map(json.loads, written(capsys).splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "resonance.pipeline.worker.worker",
        "message": "in[3] goes on",
        "topic": "in",
        "partition": 3,
        "offset": 17,
    }
    assert (second["message"], second["thing"]) == ('a "quoted"\nline', str(object))


def test_a_line_with_half_a_surrogate_pair_is_not_lost(capsys):
    logs.configure("info", "json")
    say(logging.INFO, "read %s", "caf\udce9.csv")
    assert json.loads(written(capsys))["message"] == "read caf\udce9.csv"


def test_a_line_shows_content_and_obeys_none(capsys):
    content = "r1\x1b]0;title\x07\n2026-01-31T12:00:00.123Z WARNING forged \x9b\u202e"
    logs.configure("debug")
    say(logging.INFO, "id %s", content, error=(ValueError, ValueError("a \x1b"), None))
    line, *traceback = written(capsys).splitlines()
    assert line.endswith(r"id r1\x1b]0;title\x07\n2026-01-31T12:00:00.123Z WARNING forged \x9b\u202e")
    assert traceback == [r"ValueError: a \x1b"]
    logs.configure("info", "json")
    say(logging.INFO, "id %s", content)
    line = written(capsys)
    assert line.rstrip("\n").isprintable()
    assert json.loads(line)["message"] == f"id {content}"


@pytest.mark.parametrize("style", ["text", "json"])
def test_tracebacks_are_a_field_and_no_further_lines(capsys, style):
    logs.configure("info", style)
    try:
        raise ValueError("no")
    except ValueError as error:
        say(logging.ERROR, "it failed", error=error)
    (line,) = written(capsys).splitlines()
    if style == "json":
        assert json.loads(line)["traceback"].endswith("ValueError: no")
    else:
        assert line.endswith("ERROR   it failed")


UNREAD = """
import logging, os, sys
from resonance.pipeline import logs
from resonance.pipeline.cli.output import end
logs.configure("info")
for number in range(30_000):
    logging.getLogger("resonance").info("line %d, of a hundred bytes or so, because a pipe holds 64 kB of them", number)
print("went on", flush=True)
sys.stdin.readline()
end(5)
"""


@pytest.mark.parametrize("read", [False, True])
def test_a_log_that_is_not_read_holds_up_nothing_and_what_was_dropped_is_counted(read):
    with subprocess.Popen(
        [sys.executable, "-c", UNREAD], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, bufsize=0
    ) as process:
        try:
            assert process.stdout.readline() == "went on\n"
            if read:
                known = 0
                while known < 30_000:
                    dropped = re.search(r"WARNING +([\d,]+) lines of the log were dropped", process.stderr.readline())
                    known += int(dropped[1].replace(",", "")) if dropped else 1
                assert known == 30_000
            process.stdin.write("\n")
            assert process.wait(timeout=60) == 5
        finally:
            process.kill()


def test_what_faust_warns_of_is_left_out(capsys):
    logs.configure("info", "json")
    logging.getLogger("faust.app.base").warning("[^WorkerApp]: Missing sensor state for rebalance #%s", 1)
    logging.getLogger("mode.timers").warning("Timer %s is overlapping (interval=%r runtime=%r)", "x", 1.0, 2.8)
    logging.getLogger("faust.app.base").error("gone")
    assert [json.loads(line)["message"] for line in written(capsys).splitlines()] == ["gone"]
