"""Commands whose results cannot be written end with one sentence and exit code 74."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RECORDS = [{"features": [n / 100, (n * 7 % 100) / 100]} for n in range(2_000)]
FULL = Path("/dev/full")
# Only now: the kernels' folder has room.
LIMITED = """
import resource, resonance.engine
from resonance.pipeline.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
main()
"""
SETTINGS = ("--set", "stream=partition", "--engine.name", "caea")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    file = tmp_path_factory.mktemp("records") / "in.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return str(file)


def run(*arguments, stdout, code="-mresonance.pipeline.cli.main"):
    """Run a command; return its exit code and its messages."""
    start = [sys.executable, code] if code.startswith("-m") else [sys.executable, "-c", code]
    ended = subprocess.run([*start, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("settings", "-s", "input.topics=in"),
        ("replay", "FILE", "--json", *SETTINGS),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_full_standard_output(records, arguments):
    with FULL.open("w") as full:
        code, messages = run(*(records if each == "FILE" else each for each in arguments), stdout=full)
    assert (code, messages.splitlines()[-1]) == (
        74,
        "error: the output: it cannot be written (No space left on device); make room there, then run it again",
    )
    assert "Traceback" not in messages


def test_a_full_folder_of_results(records, tmp_path):
    arguments = ("replay", records, "-o", str(tmp_path), "--partitions", "2", "--processes", "1")
    code, messages = run(*arguments, *SETTINGS, stdout=subprocess.PIPE, code=LIMITED)
    assert (code, "Traceback" in messages) == (74, False), messages
    assert "cannot be written (File too large); make room there" in messages.splitlines()[-1]


def test_messages_that_cannot_be_written_change_no_result(records):
    with FULL.open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "resonance.pipeline.cli.main", "replay", records, "--json", *SETTINGS],
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["records"] == len(RECORDS)
