"""What the documentation shows is what the program does."""

import importlib.util
import re
import shlex
from pathlib import Path

import orjson
import pytest
import typer
from resonance.pipeline import errors
from resonance.pipeline.cli import main, stopping
from resonance.pipeline.demo.run import TOPIC, _settings
from resonance.pipeline.demo.telemetry import START_MS, Telemetry
from resonance.pipeline.mismatches import NEW_VERSION, RESET, RESUME
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask
from typer.main import get_command

from tests.series import series_names

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
SHOWN = 5758
"""Offset of the demo's record that the README shows."""


def examples():
    return [orjson.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGES[0].read_text(), re.DOTALL)]


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def shortened(value, like):
    """Return a value with the members and the digits that an example has."""
    if isinstance(value, dict):
        return {name: shortened(value[name], like[name]) for name in like}
    if isinstance(value, list):
        return [shortened(*pair) for pair in zip(value, like, strict=True)]
    if isinstance(value, float):
        return round(value, len(str(like).partition(".")[2]))
    return value


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        file, _, place = target.partition("#")
        found = page.parent / file if file else page
        assert found.exists(), target
        if place:
            assert place in map(anchor, re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)), target


def test_the_readme_shows_a_record_of_the_demo_with_its_assignment_and_the_event_before_it():
    record, assignment, event = examples()
    task, telemetry = PartitionTask(_settings("127.0.0.1:9092"), TOPIC, 0), Telemetry()
    samples = [telemetry.sample(0, offset) for offset in range(SHOWN + 1)]
    outputs = task.process([Record(TOPIC, 0, at, START_MS, each.key, each.value) for at, each in enumerate(samples)])
    answer, last = orjson.loads(outputs.assignments[-1].value), orjson.loads(outputs.cluster_events[-1].value)
    assert (orjson.loads(samples[-1].value), set(answer)) == (record, set(assignment))
    assert shortened(answer, assignment) == assignment
    assert set(last) == set(event)
    assert shortened(last, event) == event


@pytest.mark.parametrize("option", [RESUME, NEW_VERSION, RESET])
def test_every_option_that_recovers_from_a_stop_is_explained(option):
    for page in (ROOT / "README.md", ROOT / "docs" / "operations.md"):
        assert f"`{option}`" in page.read_text()


def commands(group, name=""):
    """Yield every command with its options."""
    for word in group.commands:
        command = group.get_command(None, word)
        yield name + word, {option for parameter in command.params for option in parameter.opts} | {"--help"}
        yield from commands(command, f"{name}{word} ") if hasattr(command, "commands") else ()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_modules_commands_options_and_metrics_that_are_named_are_there(page):
    text, known = page.read_text(), dict(commands(get_command(main.app)))
    for file in re.findall(r"\b(?:pipeline|engine|schemas|docker|bench|tests)/[\w/.-]+\.\w+", text):
        assert (ROOT / file).exists(), file
    for module in re.findall(r"\bresonance\.(?:pipeline|engine|schemas)(?:\.[a-z_]+)+\b(?!\()", text):
        assert importlib.util.find_spec(module), module
    for line in re.findall(r"(?:\$ |`)resonance ([a-z][^`\n#|]*)", text):
        command = " ".join(line.split()[:2])
        command = command if command in known else line.split()[0]
        assert command in known, line
        # With a dot it is a setting.
        assert {option for option in re.findall(r"(?<!\S)--[a-z][\w.-]*", line) if "." not in option} <= known[
            command
        ] | {*main.SHARED}
    metrics = set(re.findall(r"`(resonance_\w+)`", text))
    series = {re.sub(r"_(bucket|count|sum)$", "", name) for name in series_names()}
    assert metrics <= series | series_names()


def shown_commands(text):
    """Yield what a shell would pass to `resonance` in each console and shell block."""
    for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            # A loop of the shell, a variable before the command, or a prompt.
            found = re.search(r"(?:^|[\$;] |\bdo |exec \S+ )(?:\w+=\S+ )*resonance (.*)", line)
            if found and line[0] in "$dr":
                words = shlex.split(re.split(r" [|>;] ?|; done", found[1])[0], comments=True)
                yield words


def parse(arguments):
    """Parse a command line as the program does, without running it."""
    words, group = main.shared_first(main.as_options(arguments)), get_command(main.app)
    context = group.make_context("resonance", words)
    words = [*context._protected_args, *context.args]
    while hasattr(group, "get_command") and words and not words[0].startswith("-"):
        name = words.pop(0)
        group = group.get_command(context, name)
    return group.make_context(name, words, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_shown_can_be_typed(page):
    for arguments in shown_commands(page.read_text()):
        if arguments != ["--version"]:
            parse(arguments)


def test_a_command_that_is_shown_with_a_wrong_value_would_be_found():
    found = [command for page in PAGES for command in shown_commands(page.read_text())]
    assert ["replay", "--last", "10m", "--output", "results"] in found
    for wrong in ("replay --processes many", "snapshots export", "dlq list --limit few"):
        with pytest.raises(typer.BadParameter):
            parse(wrong.split())


def test_the_exit_codes_are_those_of_the_program():
    page = (ROOT / "docs/operations.md").read_text()
    text = {int(code) for code in re.findall(r"^- (\d+): ", page, re.MULTILINE)}
    raised = {each.exit_code for each in vars(errors).values() if hasattr(each, "exit_code")}
    assert text == raised | {
        0,
        errors.DIFFERS,
        errors.MISSED,
        stopping.INTERRUPTED,
        stopping.TERMINATED,
        stopping.UNREAD,
    }


@pytest.mark.parametrize(
    "name",
    sorted(
        set(
            re.findall(r"`((?:engine|pipeline|schemas|tests)/[^`*]*)`", (ROOT / "docs" / "architecture.md").read_text())
        )
    ),
)
def test_what_the_architecture_names_is_there(name):
    path, _, within = name.partition(":")
    assert (ROOT / path).exists()
    if within:
        assert re.search(rf"^\s*(?:def |class )?{within}\b", (ROOT / path).read_text(), re.MULTILINE)
