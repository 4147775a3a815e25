"""Commands whose results are not read, or whose standard streams are closed, end quietly."""

import json
import os
import subprocess
import sys

import pytest
from resonance.pipeline.kafka.embedded import EmbeddedBroker

from tests.pipeline.page import outputs

COMMAND = [sys.executable, "-m", "resonance.pipeline.cli.main"]
PRINTING = [("--help",), ("settings", "-s", "input.topics=in")]


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_pipe_that_nobody_reads_is_no_error_of_the_program(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_what_is_followed_for_nobody_ends_the_same():
    reading, writing = os.pipe()
    os.close(reading)
    with EmbeddedBroker(["shop.cluster-events"]) as broker:
        broker.append("shop.cluster-events", 0, json.dumps(outputs.event("emerged", "p0/1/0")).encode())
        broker.flush()
        watch = ["watch", "--broker", broker.bootstrap, "--name", "shop", "--from", "earliest", "--until-end"]
        ended = subprocess.run([*COMMAND, *watch], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_standard_streams_that_are_closed_lead_nowhere(arguments):
    closed = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh"]
    ended = subprocess.run([*closed, *COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_an_error_keeps_its_code_where_nobody_reads():
    closed = ["sh", "-c", '"$@" >&-', "sh", *COMMAND, "settings", "-s", "input.topic=in"]
    ended = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert (ended.returncode, "input.topic (on the command line): there is no such setting" in ended.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize(("code", "expected"), [(0, 141), (3, 3)])
def test_what_a_command_found_counts_more_than_that_nobody_reads_it(code, expected):
    program = f"""
import sys, typer
from resonance.pipeline.cli import main
def app(*_, **__):
    sys.stdout.write("found")
    raise SystemExit({code})
main.app = app
main.main()
"""
    reading, writing = os.pipe()
    os.close(reading)
    # What is not buffered fails before the command has a code.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=-1, check=False, env=buffered)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (expected, b"")


def test_a_table_that_nobody_reads_ends_as_text_does():
    program = """
from resonance.pipeline.cli import main
from resonance.pipeline.cli.output import print_table
main.app = lambda *_, **__: print_table(["n"], [[1]])
main.main()
"""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")
