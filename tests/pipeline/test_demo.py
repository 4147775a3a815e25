"""The demo, short: a worker is killed, and its outputs are still those of a run that nothing interrupted."""

import io
import os
import signal
import subprocess
import sys
import time

import orjson
import pytest
from resonance.pipeline.demo.report import Comparison, RegionQuality, compare, outcome_table, replay, verdict
from resonance.pipeline.demo.run import Options, _settings, check_complete, follow, run
from resonance.pipeline.demo.story import Story
from resonance.pipeline.demo.telemetry import START_MS, Telemetry
from resonance.pipeline.demo.view import LiveView, PlainView, panel, spark
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.records import Message
from resonance.pipeline.timestamps import epoch_ms
from rich.console import Console

from tests.night import at_night

pytestmark = pytest.mark.slow


def cluster(name, **centre):
    return {"id": name, "size": 30, "centre": centre, "spread": dict.fromkeys(centre, 1.0), "nodes": 2}


def event(kind, name, offset, other=None):
    """An event of partition 0 as it stands on the bus."""
    after = [] if kind in ("absorbed", "vanished") else [cluster(name, latency_ms=100.0)]
    value = {"kind": kind, "stream": "p0", "version": 1, "level": 1, "seq": offset, "cluster": name, "before": []}
    cause = {"id": None, "source": {"topic": "t", "partition": 0, "offset": offset}}
    value |= {"after": after, "cause": cause, "time": "2026-01-05T08:00:00.000Z"}
    return value | ({"other": other} if other else {})


def message(name, value=b"{}"):
    return Message(b"key", value, [("ce_id", name.encode())])


def test_the_demo_is_exact_although_its_worker_is_killed(tmp_path):
    screen = io.StringIO()
    code = run(Options(folder=tmp_path, seconds=3, records=1500), Console(file=screen, width=120))
    assert "6,000 of 6,000 assignments are identical to an uninterrupted replay" in screen.getvalue()
    assert code == 0
    assert "The incidents, the newest first" in screen.getvalue()
    figures = orjson.loads((tmp_path / "report.json").read_bytes())
    assert figures["assignments"] == {"expected": 6000, "identical": 6000, "missing": 0, "unexpected": 0}
    answers = [orjson.loads(line) for line in (tmp_path / "assignments.jsonl").read_bytes().splitlines()]
    assert len(answers) == 6000
    assert (tmp_path / "events.jsonl").read_bytes().count(b"\n") == figures["cluster_events"]["expected"] > 0
    assert (tmp_path / "alerts.jsonl").read_bytes().count(b"\n") == figures["alerts"]["expected"]
    assert (tmp_path / "lifelines.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "worker.log").read_text().count("processing from") == 2, "it was started twice"


def test_what_happens_to_the_regions_is_four_incidents():
    story = Story(telemetry := Telemetry())
    for partition, part in enumerate(replay(_settings("127.0.0.1:9092"), telemetry)):
        for kind, take in (("cluster_events", story.event), ("drift_events", story.drift), ("alerts", story.alert)):
            for each in part.of(kind):
                take(partition, each.value)
    found = sorted(story.happened.incidents(), key=lambda each: each["since"])
    assert [(each["streams"], each["kind"], each["features"][0]["feature"]) for each in found] == [
        (["p2"], "drifted", "latency_ms"),
        (["p0"], "drifted", "latency_ms"),
        (["p1"], "new_kind", "payload_kb"),
        (["p0"], "drifted", "latency_ms"),
    ]
    creep, deploy, crawler, rollback = ((epoch_ms(each["since"]) - START_MS) / 5 for each in found)
    began = [each.at for each in telemetry.incidents]
    assert [deploy, crawler, rollback] == pytest.approx(began[1:], abs=30)
    # A creep is seen once it has moved by a part of its noise.
    assert began[0] < creep < began[0] + 700
    assert [each["features"][0].get("ratio", 1.0) > 1.0 for each in found] == [False, True, False, False]


@pytest.mark.nightly
def test_the_demo_needs_no_more_than_a_worker(tmp_path, monkeypatch):
    monkeypatch.setattr("resonance.pipeline.demo.run.find_spec", lambda _: None)
    # Its worker lives to the end.
    monkeypatch.setattr("resonance.pipeline.demo.run.KILL_AT", 2.0)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    screen = io.StringIO()
    assert run(Options(folder=tmp_path, seconds=3, records=300), Console(file=screen, width=120)) == 0
    said = screen.getvalue()
    assert "1,200 of 1,200 assignments are identical" in said
    assert "lifelines.png needs more packages: pip install 'resonance-streams[demo]'" in said
    assert "ARI, second half" not in said
    assert not (tmp_path / "lifelines.png").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("after", ["worker started", at_night("worker.*killed")])
def test_ctrl_c_ends_everything_without_a_traceback(tmp_path, after):
    # Who runs the tests in the background has them ignore Ctrl-C, and their children after them.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    code += "from resonance.pipeline.demo.run import Options, Path, run;"
    code += "sys.exit(run(Options(Path(sys.argv[1]), 3, 1500)))"
    demo = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    said = []
    for line in demo.stderr:
        said.append(line)
        if after.split(".*")[-1] in line:
            break
    demo.send_signal(signal.SIGINT)
    said.append(demo.stderr.read())
    assert demo.wait(30) == 130, "".join(said)
    text = "".join(said)
    assert "Traceback" not in text
    assert "interrupted: worker and broker are stopped" in text
    pids = [int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if " as process " in line]
    assert pids
    time.sleep(0.1)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_that_ends_by_itself_ends_the_demo_with_its_last_line(tmp_path, monkeypatch):
    monkeypatch.setattr("resonance.pipeline.demo.run.TOPIC", "demo.snapshots")
    with pytest.raises(Exception, match=r"input\.topics"):
        run(Options(folder=tmp_path, seconds=3, records=300), Console(file=io.StringIO()))


def test_the_demo_says_when_the_broker_dropped_what_it_had_not_read():
    with EmbeddedBroker([f"demo.{kind}" for kind in ("assignments", "cluster-events", "drift-events")]) as broker:
        for _ in range(6):
            broker.append("demo.assignments", 0, os.urandom(700_000))
            broker.flush()
        broker._used.clear()  # what the budget would have refused
        for _ in range(6):
            broker.append("demo.assignments", 0, os.urandom(700_000))
            broker.flush()
        received = 0
        with follow(_settings(broker.bootstrap)) as follower, pytest.raises(BrokerError, match="dropped"):
            for _ in range(100):
                received += len(follower.poll(0.1))
                check_complete(follower, received)


def test_a_comparison_counts_what_is_missing_different_and_too_much():
    expected = [[message("a"), message("b"), message("c")], []]
    found = compare(expected, [[message("b"), message("c", b"other")], [message("d")]])
    assert found == Comparison(expected=3, identical=1, missing=2, unexpected=2)
    assert not found.exact
    assert compare(expected, expected).exact
    twice = compare([[message("a")]], [[message("a", b"other"), message("a")]])
    assert (twice.identical, twice.unexpected, twice.exact) == (1, 1, False)
    screen = io.StringIO()
    Console(file=screen, width=120).print(
        verdict({"assignments": found}, 3, [RegionQuality("r", 7, 7, 0.9, 0.95)], 1.0)
    )
    assert "1 of 3 assignments are identical" in screen.getvalue()
    assert "2 missing or different, 2 too many" in screen.getvalue()


def test_a_story_folds_events_and_tells_them():
    now = [0.0]
    story = Story(Telemetry(100), clock=lambda: now[0])
    story.event(0, orjson.dumps(event("emerged", "p0/1/0", 10)))
    story.event(0, orjson.dumps(event("split", "p0/1/1", 20, "p0/1/0")))
    story.event(0, orjson.dumps(event("absorbed", "p0/1/1", 30, "p0/1/0")))
    assert [each["id"] for each in story.present(0)] == ["p0/1/0"]
    answer = {"cluster": "p0/1/0", "novel": True, "source": {"topic": "t", "partition": 0, "offset": 7}}
    story.sent(0)
    assert story.waiting == 1
    story.assignment(0, orjson.dumps(answer))
    now[0] = 2.0
    story.tick()
    assert (story.waiting, story.assigned[0][7], story.novel[0], story.rate) == (0, "p0/1/0", 1, 0.5)
    for _ in range(40):
        story.sent(0)
    assert [line.kind for line in story.log] == ["emerged", "split", "absorbed", "incident"]


def test_a_drift_event_is_in_the_log_and_in_the_table():
    story = Story(Telemetry(1000))
    feature = {"feature": "latency_ms", "change": "moved", "before": 760.0, "after": 800.0, "shift": 1.6}
    cause = {"id": None, "source": {"topic": "t", "partition": 2, "offset": 300}}
    unit = {"cluster": "p2/1/6", "change": ["moved"], "features": [feature]}
    story.drift(2, orjson.dumps({"kind": "drift", "stream": "p2", "units": [unit], "cause": cause}))
    said = "p2/1/6 moved: latency_ms 760 -> 800 (+1.6 spreads), seen at 300"
    assert [(line.kind, line.text) for line in story.log] == [("change", said)]
    screen = io.StringIO()
    Console(file=screen, width=200).print(outcome_table(story))
    assert f"▲ {said}" in screen.getvalue()


def test_sentences_and_progress_are_plain_lines_without_a_terminal():
    now, screen = [0.0], io.StringIO()
    story = Story(Telemetry(10), clock=lambda: now[0])
    with PlainView(story, Console(file=screen)) as view:
        story.say("worker", "worker killed")
        view.update()
        now[0] = 6.0
        view.update()
        view.update()
        # Nothing is answered while a worker starts: one line says so.
        now[0] = 12.0
        view.update()
        story.worker = "running, pid 7"
        now[0] = 18.0
        view.update()
    first, second, third = screen.getvalue().splitlines()
    assert third.startswith(" 18.0 s  0 of 40 records answered")
    assert first == "  0.0 s  worker killed"
    assert second.startswith("  6.0 s  0 of 40 records answered")


def test_the_live_view_leaves_the_sentences_and_takes_its_panel_away():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=110)
    story = Story(Telemetry(10))
    with LiveView(story, console) as view:
        story.say("split", "p0/1/7 split from p0/1/3: latency_ms 80 -> 420")
        view.update()
    assert screen.getvalue().count("p0/1/7 split from p0/1/3: latency_ms 80 -> 420") == 1
    story.worker = "running, pid 7"
    console.print(panel(story))
    assert "running, pid 7" in screen.getvalue()
    assert (spark([0, 5, 10]), spark([0, 0])) == ("▁▅█", "▁▁")
