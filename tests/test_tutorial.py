"""The tutorial's data give what the tutorial shows."""

import csv
import random
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pytest
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.peers.comparison import compare
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.pipeline.watch.sentences import sentence
from resonance.schemas import ClusterTable

from tests.night import seeds
from tests.pipeline.commands import run

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "tutorial.md").read_text()
ASSISTANT = (ROOT / "docs" / "mcp.md").read_text()
OUTPUTS = ("assignments", "cluster-events", "drift-events", "alerts", "dead-letters")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The file of the second step, the settings of the third, and a replay of both, as a worker would answer."""
    folder = tmp_path_factory.mktemp("tutorial")
    assert "python docs/machines.py" in TEXT
    subprocess.run([sys.executable, ROOT / "docs" / "machines.py"], cwd=folder, check=True)
    options = re.search(r"resonance produce (machines\.csv.*) --create-partitions 4 (.*)", TEXT)
    with pytest.MonkeyPatch.context() as patch, (folder / "shown").open("w") as shown, redirect_stdout(shown):
        patch.chdir(folder)
        assert run(patch, "produce", *options[1].split(), *options[2].split(), "--dry-run") == 0
        assert run(patch, "replay", *options[1].split(), "--partitions", "4", "--output", "out") == 0
    return folder


@pytest.fixture(scope="module")
def outputs(folder):
    lines = {kind: (folder / "out" / f"{kind}.jsonl").read_bytes().splitlines() for kind in OUTPUTS}
    return {kind: [orjson.loads(line)["value"] for line in found] for kind, found in lines.items()}


def second(output):
    return output["time"][:19].replace("T", " ")


def test_the_settings_are_those_that_are_shown(folder):
    shown = re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)[1]
    assert shown in (folder / "resonance.toml").read_text()


def test_every_sentence_of_the_commands_is_true(outputs):
    sentences = set()
    table = ClusterTable()
    for event in outputs["cluster-events"]:
        table.apply(orjson.dumps(event))
        sentences.add((second(event), "cluster " + sentence(event, table.clusters(event["stream"]).values())))
    for event in outputs["drift-events"]:
        sentences.add((second(event), drift_sentence(event)))
    for alert in outputs["alerts"]:
        time = second(alert)
        sentences.add((time, f"{alert['severity']} alert {alert['kind']} ({alert['rule']}): {alert['text']}"))
        if alert["kind"] == "opened":
            sentences.add((time, f"{alert['severity']} {alert['rule']} {alert['text']}"))
    shown = re.findall(r"^(2026-\d\d-\d\d \d\d:\d\d:\d\d) +(?:(?:alerts|events|drift) +)?(.*)$", TEXT, re.MULTILINE)
    assert len(shown) > 3
    for time, text in shown:
        assert (time, re.sub(r" +", " ", text)) in sentences, text


def test_what_happens_to_three_machines_is_seen(outputs):
    critical = [(alert["time"][:10], alert["stream"]) for alert in outputs["alerts"] if alert["rule"] == "unlike"]
    assert {stream for day, stream in critical if day == "2026-03-06"} == {"p1:m07"}
    rescaled = [
        (event["time"][:10], event["stream"]) for event in outputs["drift-events"] if event["kind"] == "rescaled"
    ]
    assert rescaled == [("2026-03-04", "p0:m03"), ("2026-03-06", "p1:m07")]
    records, *rest = (len(outputs[kind]) for kind in ("assignments", "cluster-events", "drift-events", "alerts"))
    counted = "{} events, {} drift events, {} alerts, 0 dead letters".format(*rest)
    assert f"identical: {records:,} records, {records:,} assignments, {counted}" in TEXT


def test_a_replay_into_a_folder_lists_what_happened(folder):
    shown = " ".join((folder / "shown").read_text().split())
    assert "p1:m07: broke 2026-03-06 00:00:00, pressure 37.8, usually 6.2" in shown


def test_what_happened_is_three_incidents(outputs):
    table = IncidentTable()
    for kind in ("cluster-events", "drift-events", "alerts"):
        for output in outputs[kind]:
            table.apply(kind.replace("-", "_"), output)
    broke, work, unit = table.incidents()
    for incident in table.incidents():
        assert f"{incident['severity']:<8}  open   {incident['text']}\n" in TEXT
    # What an assistant gets of the newest.
    (listed,) = re.findall(r"```json\n(\{\"incidents.*?)```", ASSISTANT, re.DOTALL)
    (shown,) = orjson.loads(listed)["incidents"]
    assert {name: broke[name] for name in shown} == shown
    assert (broke["kind"], broke["streams"], broke["features"][0]["feature"]) == ("broke", ["p1:m07"], "pressure")
    assert (unit["kind"], unit["streams"], [each["feature"] for each in unit["features"]]) == (
        "unit",
        ["p0:m03"],
        ["pressure"],
    )
    assert unit["factor"] == pytest.approx(100, rel=0.05)
    # That of which the pressure has another range by then, too.
    assert (work["kind"], len(work["streams"])) == ("new_kind", 12)
    assert {each["feature"] for each in work["features"]} == {"temperature", "vibration", "current", "flow"}
    for incident, day in ((broke, "06"), (work, "05"), (unit, "04")):
        began = datetime.fromisoformat(f"2026-03-{day}T00:00:00Z")
        assert abs(datetime.fromisoformat(incident["since"]) - began) <= timedelta(minutes=2 * 30)


@pytest.mark.parametrize("seed", seeds(1, night=3))
def test_in_whichever_order_partitions_are_read_the_incidents_are_the_same(outputs, seed):
    logs = defaultdict(list)
    for kind in ("cluster-events", "drift-events", "alerts"):
        for output in outputs[kind]:
            logs[kind, output["cause"]["source"]["partition"]].append(output)
    order = [log for log, found in logs.items() for _ in found]
    random.Random(seed).shuffle(order)
    expected, shuffled = IncidentTable(), IncidentTable()
    for (kind, _), found in logs.items():
        for output in found:
            expected.apply(kind.replace("-", "_"), output)
    for kind, partition in order:
        shuffled.apply(kind.replace("-", "_"), logs[kind, partition].pop(0))
        shuffled.incidents()
    assert shuffled.incidents() == expected.incidents()


def test_the_machines_that_are_unlike_the_others_are_those_that_are_named(folder):
    assert re.search(r"`resonance inspect --peers` names the machines .*: m07, and m03 for its unit\.", TEXT, re.DOTALL)
    features = re.search(r"^features = (\[.*\])$", TEXT, re.MULTILINE)
    with (folder / "machines.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    features = orjson.loads(features[1])
    machines = sorted({record["machine"] for record in records})
    rows = np.array([[float(record[feature]) for feature in features] for record in records])
    streams = np.array([machines.index(record["machine"]) for record in records])
    unlike, count, _ = compare(rows, streams, len(machines))
    assert count == 12
    assert {machines[each.stream] for each in unlike} == {"m03", "m07"}
    assert {features[each.feature] for each in unlike if machines[each.stream] == "m03"} == {"pressure"}


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_sentences_are_short_on_average(page):
    text = re.sub(r"```.*?```", "\n\n", (ROOT / page).read_text(), flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#"))]
    paragraphs = re.split(r"\n\s*\n|\n- ", "\n".join(lines))
    said = [len(each.split()) for one in paragraphs for each in re.split(r"(?<=[.!?:])\s+", " ".join(one.split()))]
    assert sum(said) / len(said) <= 25
