"""What an engine's state knows of its clusters, and what `resonance inspect` shows; without a broker."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from resonance.engine import make_engine
from resonance.pipeline.cli.inspect import place, range_sentence
from resonance.pipeline.inspect.changed_ranges import ChangedRange
from resonance.pipeline.inspect.inspection import inspect, parent_of
from resonance.pipeline.inspect.listing import read_states
from resonance.pipeline.inspect.stream_outputs import StreamOutputs
from resonance.pipeline.watch import picture
from resonance.schemas import ClusterTable

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment, rekeyed
from tests.pipeline.streams import payloads, points

OPTIONS = ("inspect", "--topics", "features", "--name", "resonance")


TOLD = [
    ("modal", 1, {"landmarks": 64, "memory": 100, "expire_records": 100, "min_cluster_records": 5}),
    ("caea", 1, {"lambda": 20, "min_cluster_records": 5}),
    ("hcaea", 2, {"lambda": 20, "min_cluster_records": 5, "min_child_records": 30}),
    ("evq", 1, {}),
]


@pytest.mark.parametrize(("engine", "depth", "given"), TOLD)
def test_the_engine_tells_since_when_clusters_are_there(engine, depth, given):
    model = make_engine(engine, given)
    assert model.models() == {}
    began = {}
    rows = points(3_000) / np.array([1.0, 400.0, 8.0])
    for start in range(0, 3_000, 50):
        for event in model.learn(rows[start : start + 50]).events:
            if event.kind in ("emerged", "split") and not event.path:
                began[event.path, event.cluster] = start + event.index + 1
    models = model.models()
    clusters = model.clusters()
    assert max(len(cluster.path) for cluster in clusters) >= depth - 1
    assert models[()].records == 3_000
    assert sum(len(facts.since) for facts in models.values()) == len(clusters)
    for cluster in clusters:
        facts = models[cluster.path]
        assert facts.since[cluster.id] <= facts.records
        assert list(facts.cluster_of.values()).count(cluster.id) == cluster.nodes
        assert not cluster.path or models[cluster.path[:-1]]
        if not cluster.path:
            assert facts.since[cluster.id] == began[cluster.path, cluster.id]
            assert parent_of(models, cluster.path) is None


def test_a_child_lies_below_the_cluster_of_its_node():
    model = make_engine("hcaea", {"lambda": 20, "min_cluster_records": 5, "min_child_records": 30})
    model.learn(points(3_000) / np.array([1.0, 400.0, 8.0]))
    models = model.models()
    roots = {cluster.id for cluster in model.clusters() if not cluster.path}
    children = [cluster for cluster in model.clusters() if cluster.path]
    assert {parent_of(models, cluster.path) for cluster in children} <= {None, *roots}
    assert any(parent_of(models, cluster.path) in roots for cluster in children)


def test_a_stream_is_shown_as_its_snapshot_has_it(monkeypatch):
    deployment = MemoryDeployment(monkeypatch)
    events = payloads(deployment.work(600, everything=True).cluster_events)
    (found,) = inspect(deployment.given, deployment, read_states(deployment.source, deployment), "p0:a")
    assert (found.stream, found.version, found.next, found.committed) == ("p0:a", 1, 600, 600)
    assert found.time == "2023-11-14T22:23:19.000Z"
    table = ClusterTable()
    for event in events:
        table.apply(event)
    assert {cluster.id for cluster in found.clusters} == set(table.clusters("p0:a"))
    for cluster in found.clusters:
        assert (cluster.level, cluster.parent) == (1, None)
        assert cluster.emerged
        assert cluster.records is not None
        assert 0 <= cluster.records <= found.records


def test_the_table_names_clusters_and_features(monkeypatch, capsys):
    MemoryDeployment(monkeypatch).work(600, everything=True)
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a") == 0
    out = capsys.readouterr().out
    assert "p0:a, version 1 (modal): " in out
    assert "as of features[0]@599 (2023-11-14T22:23:19.000Z); snapshot written 2023-" in out
    assert "what sets it apart" in out
    assert max(map(len, out.splitlines())) < 120
    assert "latency_ms" in out
    assert "p0:a/1/0" in out or "p0:a/1/1" in out


def test_wide_shows_how_each_began_and_its_features(monkeypatch, capsys):
    MemoryDeployment(monkeypatch).work(600, everything=True)
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a", "--wide") == 0
    out = capsys.readouterr().out
    assert "age in records" in out
    assert " ± " in out


def folded(deployment):
    """The clusters as a subscriber knows them, with their sizes."""
    table = ClusterTable()
    for (topic, _), log in deployment.logs.items():
        if topic == deployment.given.topic("cluster_events"):
            for record in log:
                table.apply(record.value)
    return {stream: set(table.clusters(stream)) for stream in table.streams}


def began_again(monkeypatch, layout):
    """A deployment that processed half of its records, wrote all snapshots, and processed the rest without any."""
    if layout == "key":
        deployment = MemoryDeployment(monkeypatch, records=1_500)
        deployment.work(600, everything=True)
        before = folded(deployment)
        deployment.work(1_500, snapshots=False)
    else:
        deployment = rekeyed(monkeypatch, records=1_500)
        deployment.turn(0.5, everything=True)
        before = folded(deployment)
        deployment.turn(kept=False)
    return deployment, before


@pytest.mark.parametrize("layout", ["key", "field"])
def test_what_came_since_the_snapshot_is_learned_again(monkeypatch, layout):
    deployment, before = began_again(monkeypatch, layout)
    states = read_states(deployment.source, deployment)
    present = folded(deployment)
    changed = [stream for stream in present if present[stream] != before.get(stream)]
    assert changed
    for stream in present:
        seen = []
        (stored,) = inspect(deployment.given, deployment, states, stream, stored=True, learned=seen.append)
        assert ({cluster.id for cluster in stored.clusters}, seen) == (before.get(stream, set()), [])
        (found,) = inspect(deployment.given, deployment, states, stream, learned=seen.append)
        assert {cluster.id for cluster in found.clusters} == present[stream]
        assert (found.stored, found.records > stored.records, sum(seen) > 100) == (stored.next, True, True)


def test_where_the_records_since_are_deleted_it_is_shown_as_stored(monkeypatch):
    deployment, before = began_again(monkeypatch, "key")
    deployment.expire("features", 900)
    (found,) = inspect(deployment.given, deployment, read_states(deployment.source, deployment), "p0:a")
    assert (found.next, found.committed, {cluster.id for cluster in found.clusters}) == (600, 1_500, before["p0:a"])


def test_the_recent_share_is_that_of_the_last_answers(monkeypatch):
    deployment, _ = began_again(monkeypatch, "key")
    (found,) = inspect(deployment.given, deployment, read_states(deployment.source, deployment), "p0:a")
    answers = [each for each in map(orjson.loads, (r.value for r in deployment.recorded())) if each["stream"] == "p0:a"]
    last = answers[-1_000:]
    for cluster in found.clusters:
        assert cluster.recent == sum(each["cluster"] == cluster.id for each in last) / len(last)


def test_what_is_shown_fits_a_terminal(monkeypatch, capsys):
    MemoryDeployment(monkeypatch).work(600, everything=True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a") == 0
    lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    assert lines[1].startswith("as of features[0]@")
    assert "snapshot written" in " ".join(lines[1:3])
    assert max(map(len, lines)) <= 80


def test_splits_that_were_taken_back_are_counted_with_what_gives_fewer(monkeypatch, capsys):
    deployment = MemoryDeployment(monkeypatch)
    deployment.work(600, everything=True)
    log = deployment.recorded("cluster_events")
    own = [orjson.loads(record.value) for record in log]
    before = sum((event["kind"], event["stream"]) == ("split", "p0:a") for event in own)
    cause = {"source": {"topic": "features", "partition": 0, "offset": 9}}
    for kind, own, other in (("split", 90, 0), ("split", 91, 0), ("absorbed", 0, 91), ("absorbed", 0, 1)):
        event = {"stream": "p0:a", "kind": kind, "cluster": f"p0:a/1/{own}", "other": f"p0:a/1/{other}"}
        log.append(log[-1]._replace(value=orjson.dumps(event | {"cause": cause, "time": "2026"})))
    (found,) = inspect(deployment.given, deployment, read_states(deployment.source, deployment), "p0:a")
    assert (found.splits, found.taken_back) == (before + 2, 1)
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a") == 0
    text = f"1 of {before + 2} splits were taken back by a merge; a lower engine.doubt gives fewer splits"
    assert text in capsys.readouterr().out


def test_a_spread_of_rounding_alone_is_none():
    assert [place(8.0, 9.437e-16), place(8.0, 0.25), place(0.0, 1e-9)] == ["8 ± 0", "8 ± 0.25", "0 ± 1e-09"]


def test_another_unit_is_named_with_the_clusters_whose_means_are_of_before():
    change = ChangedRange("temp", "2026-05-08T00:01:04.000Z", (98.9, 154.0), (38.0, 67.3))
    clusters = [SimpleNamespace(id=f"p0/1/{n}", of_before=["temp"] if n < 2 else []) for n in range(4)]
    text = "the range of temp is 98.9 to 154 since 2026-05-08 00:01, 38 to 67.3 before"
    assert range_sentence(SimpleNamespace(clusters=clusters), change) == (
        f"{text}; of before are the means of p0/1/0, p0/1/1"
    )
    assert range_sentence(SimpleNamespace(clusters=clusters[2:]), change) == text


def test_machines_get_everything(monkeypatch, capsys):
    MemoryDeployment(monkeypatch).work(600, everything=True)
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a", "--json") == 0
    shown = orjson.loads(capsys.readouterr().out)
    assert (shown["stream"], shown["topic"], shown["partition"], shown["next"]) == ("p0:a", "features", 0, 600)
    assert set(shown["clusters"][0]) == {
        *("id", "level", "parent", "size", "nodes", "records", "emerged", "centre", "spread", "recent"),
        *("omitted", "salient", "examples", "name", "origin", "automatic_name", "of_before"),
    }
    assert shown["features"] == ["cpu", "latency_ms", "net.in"]
    assert run(monkeypatch, *OPTIONS, "--json") == 0
    assert [line["stream"] for line in orjson.loads(capsys.readouterr().out)] == ["p0:a", "p0:b"]


def test_several_streams_are_an_overview(monkeypatch, capsys):
    deployment = MemoryDeployment(monkeypatch, partitions=2)
    assert run(monkeypatch, *OPTIONS) == 0
    text = capsys.readouterr().err
    assert text.startswith(
        "no snapshot of deployment resonance yet: a worker writes a stream's first after 500 records"
    )
    assert run(monkeypatch, *OPTIONS, "--stream", "p1:a") == 2
    assert "--stream p1:a: no snapshot of p1:a yet: a worker writes" in capsys.readouterr().err
    assert run(monkeypatch, *OPTIONS, "--stream", "p2:a") == 2
    assert "deployment resonance has no such stream, it has none yet" in capsys.readouterr().err
    deployment.work(600, everything=True)
    assert run(monkeypatch, *OPTIONS) == 0
    shown = capsys.readouterr()
    *lines, below = shown.out.splitlines()
    assert below.startswith("as of these snapshots; ")
    columns = re.split("  +", lines[0].strip())
    assert columns[2:6] == ["next offset", "offsets since", "records", "clusters"]
    assert [line.split()[0] for line in lines[1:]] == ["p0:a", "p0:b", "p1:a", "p1:b"]
    assert all(sum(map(int, line.split()[2:4])) == 600 for line in lines[1:])


def test_the_overview_says_how_far_a_snapshot_is_behind_and_that_a_warm_up_has_no_model(monkeypatch, capsys):
    deployment = MemoryDeployment(monkeypatch)
    deployment.work(42, everything=True)
    deployment.work(400, snapshots=False)
    assert run(monkeypatch, *OPTIONS) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:-1]]
    assert [row[:6] for row in rows] == [["p0:a", "1", "42", "358", "28", "3"], ["p0:b", "1", "41", "359", "-", "-"]]
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:b", "--stored") == 0
    assert re.search(r"\d+ of \d+ records of the warm-up have come \(prepare", capsys.readouterr().out)


@pytest.mark.parametrize("layout", ["key", "field"])
def test_a_picture_has_the_lives_up_to_what_is_shown(monkeypatch, tmp_path, capsys, layout):
    deployment, _ = began_again(monkeypatch, layout)
    present = folded(deployment)
    stream = next(iter(present))
    drawn = []
    monkeypatch.setattr(picture, "draw", lambda _, lives, left_out: drawn.extend(lives))
    kinds, values = [], StreamOutputs.values
    monkeypatch.setattr(StreamOutputs, "values", lambda *given: kinds.append(given[1]) or values(*given))
    monkeypatch.chdir(tmp_path)
    for option in (["--picture", "x.png"], ["--wide"]):
        assert run(monkeypatch, *OPTIONS, *option) == 2
        said = capsys.readouterr().err
        assert f"{option[0]} shows one stream; name it with --stream: " in said
        assert all(name in said for name in present)
    assert run(monkeypatch, *OPTIONS, "--picture", "x.png", "--stream", stream) == 0
    shown = capsys.readouterr()
    assert "picture: x.png" in shown.err
    assert kinds.count("cluster_events") == 1
    (life,) = drawn
    if layout == "key":
        listed = dict(re.findall(r"^ *(\S+) +[\d,]+ +(\d+%)", shown.out, re.MULTILINE))
        assert {line.name: f"{line.recent:.0%}" for line in life.lines if line.name in listed} == listed != {}
    answers = [each for partition in deployment.partitions for each in deployment.recorded(partition=partition)]
    assert life.records == sum(orjson.loads(each.value)["stream"] == stream for each in answers)
    assert {line.name for line in life.lines if line.ended == life.records} == present[stream]
    assert {line.name for line in life.lines if line.born == 0} == set()
    assert run(monkeypatch, *OPTIONS, "--picture", "x.png", "--stream", stream, "--stored") == 0
    assert layout == "field" or drawn[1].records < life.records


def test_without_stored_answers_a_picture_has_the_times_of_the_events(monkeypatch, tmp_path):
    deployment = MemoryDeployment(monkeypatch, output__assignments="changes")
    deployment.work(600, everything=True)
    drawn = []
    monkeypatch.setattr(picture, "draw", lambda _, lives, left_out: drawn.extend(lives))
    assert run(monkeypatch, *OPTIONS, "--picture", str(tmp_path / "x.png"), "--stream", "p0:a") == 0
    assert not drawn[0].counted
    present = {line.name for line in drawn[0].lines if line.ended == drawn[0].records}
    assert present == folded(deployment)["p0:a"]


def test_a_tree_is_shown_below_its_roots(monkeypatch, capsys):
    deployment = MemoryDeployment(
        monkeypatch, records=3_000, stream="partition", engine__name="hcaea", engine__min_child_records=30
    )
    deployment.work(3_000, everything=True)
    assert run(monkeypatch, *OPTIONS, "--json") == 0
    clusters = orjson.loads(capsys.readouterr().out)["clusters"]
    assert {cluster["level"] for cluster in clusters} >= {1, 2}
    shown = {}
    for cluster in clusters:
        shown[cluster["level"]] = cluster["id"]
        if cluster["level"] > 1 and cluster["parent"]:
            assert shown[cluster["level"] - 1] == cluster["parent"]
    assert run(monkeypatch, *OPTIONS) == 0
    shown_lines = capsys.readouterr().out.splitlines()
    lines = shown_lines[next(i for i, line in enumerate(shown_lines) if line.startswith("cluster ")) + 1 :]
    assert [line.split()[0] for line in lines] == [cluster["id"] for cluster in clusters]
    assert [(len(line) - len(line.lstrip())) // 2 + 1 for line in lines] == [cluster["level"] for cluster in clusters]


@pytest.mark.parametrize("stream", [None, "p0:a"])
def test_streams_that_do_not_fit_into_memory_are_shown_the_same(monkeypatch, stream):
    found = []
    for limit in (0, 1):
        deployment = MemoryDeployment(monkeypatch, limits__streams_in_memory=limit)
        deployment.work(400)
        deployment.work(600, snapshots=False)
        states = read_states(deployment.source, deployment)
        found.append([one.as_json() for one in inspect(deployment.given, deployment, states, stream)])
    assert found[0] == found[1]
    assert all(one["clusters"] for one in found[0])
