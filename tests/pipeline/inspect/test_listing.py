"""`resonance inspect --at`: the clusters as they were, from archives and the log; and under their names."""

from dataclasses import replace

import orjson
import pytest
from resonance.pipeline.inspect import listing
from resonance.pipeline.records import Message
from resonance.pipeline.timestamps import canonical
from resonance.pipeline.watch import picture

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment, rekeyed
from tests.pipeline.streams import STAMP

OPTIONS = ("inspect", "--topics", "features", "--name", "resonance")


def shown(monkeypatch, capsys, *arguments):
    assert run(monkeypatch, *OPTIONS, "--json", *arguments) == 0
    return orjson.loads(capsys.readouterr().out)


def as_of(monkeypatch, capsys, offset):
    """The stream as a deployment shows it that has processed so many records."""
    deployment = MemoryDeployment(monkeypatch)
    deployment.work(offset, everything=True)
    return shown(monkeypatch, capsys, "--stream", "p0:a")


@pytest.fixture
def deployment(monkeypatch):
    """One that has archives at 200 and 400, and snapshots at 600."""
    made = MemoryDeployment(monkeypatch)
    made.work(200, archive=True)
    made.work(400, archive=True)
    made.work(600, everything=True)
    return made


@pytest.mark.parametrize("at", [200, 333, 400, 599, 600])
def test_the_clusters_are_those_that_there_were(monkeypatch, capsys, at):
    wanted = as_of(monkeypatch, capsys, at)
    made = MemoryDeployment(monkeypatch)
    for until in (200, 400, 600):
        made.work(until, archive=until < 600, everything=until == 600)
    for given in (str(at), canonical(STAMP + 1_000 * (at - 1))):
        found = shown(monkeypatch, capsys, "--stream", "p0:a", "--at", given)
        for volatile in ("stored", "written", "committed"):
            wanted.pop(volatile, None)
            found.pop(volatile)
        assert found.items() >= {name: wanted[name] for name in wanted if name != "clusters"}.items()
        for own, other in zip(found["clusters"], wanted["clusters"], strict=True):
            own.pop("recent")
            assert own == {name: value for name, value in other.items() if name != "recent"}


def test_all_streams_are_listed_as_of_the_archive(monkeypatch, capsys, deployment):
    assert [row["next"] for row in shown(monkeypatch, capsys, "--at", "450")] == [400, 398]


@pytest.mark.parametrize("begins_empty", [False, True])
def test_a_time_before_the_oldest_archive_is_said_with_what_there_is(monkeypatch, capsys, begins_empty):
    deployment = MemoryDeployment(monkeypatch)
    for until in (0, 200, 600) if begins_empty else (200, 600):
        deployment.work(until, archive=until < 600, everything=until == 600)
    for options in ((), ("--peers",)):
        assert run(monkeypatch, *OPTIONS, *options, "--at", "150") == 65
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a", "--at", "150") == 65
    said = capsys.readouterr().err
    assert (
        "--at 150: topic resonance.archive has no archive from so early; features[0] has the archive at offset" in said
    )
    assert "200 (2023-11-14T22:16:39.000Z) as its oldest; choose a later time" in said
    deployment.logs[deployment.given.topic("archive"), 0].clear()
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a", "--at", "450") == 65
    assert "features[0] has none (snapshots.archive_interval" in capsys.readouterr().err
    assert run(monkeypatch, *OPTIONS, "--at", "noon") == 2
    assert "--at noon: must be earliest, latest, a time" in capsys.readouterr().err


def test_streams_that_no_archive_from_before_has_are_said(monkeypatch, capsys, deployment):
    states_at = listing.states_at

    def without_b(*given):
        states = states_at(*given)
        kept = [[one for one in state.streams if one.stream != "p0:b"] for state in states]
        return [
            replace(state, checkpoint=replace(state.checkpoint, streams=streams))
            for state, streams in zip(states, kept, strict=True)
        ]

    monkeypatch.setattr(listing, "states_at", without_b)
    assert run(monkeypatch, *OPTIONS, "--at", "450") == 0
    assert "left out: 1 of 2 streams; no archive from before 450 has them (p0:b)" in capsys.readouterr().err
    assert run(monkeypatch, *OPTIONS, "--at", "450", "--stream", "p0:b") == 2
    said = capsys.readouterr().err
    assert "--stream p0:b: no archive from before --at 450 has it, because it began later, or soon before" in said
    assert "choose a later time" in said
    assert shown(monkeypatch, capsys, "--stream", "p0:a", "--at", "450")["stream"] == "p0:a"


def test_rekeyed_streams_are_shown_as_they_were(monkeypatch, capsys):
    made = rekeyed(monkeypatch, records=1_500)
    made.turn(0.5, archive=True, everything=True)
    before = {row["stream"]: row for row in shown(monkeypatch, capsys)}
    stream = next(iter(before))
    clusters = shown(monkeypatch, capsys, "--stream", stream, "--stored")["clusters"]
    made.turn(everything=True)
    found = shown(monkeypatch, capsys, "--stream", stream, "--at", str(before[stream]["next"]))
    assert [(each["id"], each["size"]) for each in found["clusters"]] == [(c["id"], c["size"]) for c in clusters]


def test_names_are_in_the_table_and_in_the_picture(monkeypatch, capsys, deployment, tmp_path):
    first, second, *_ = (each["id"] for each in shown(monkeypatch, capsys, "--stream", "p0:a")["clusters"])
    name = {"cluster": first, "name": "night batch", "time": "2026-01-05T08:00:20.750Z"}
    deployment.append((deployment.given.topic("names"), 0), Message(first.encode(), orjson.dumps(name), []))
    by_id = {each["id"]: each for each in shown(monkeypatch, capsys, "--stream", "p0:a")["clusters"]}
    assert (by_id[first]["name"], by_id[second]["name"]) == ("night batch", None)
    assert by_id[second]["automatic_name"]
    drawn = []
    monkeypatch.setattr(picture, "draw", lambda _, lives, left_out: drawn.extend(lives))
    assert run(monkeypatch, *OPTIONS, "--stream", "p0:a", "--picture", str(tmp_path / "x.png")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("cluster ")] == [["cluster", "name"]]
    assert any(line.startswith(f"{first} ") and "night batch" in line for line in lines)
    assert any(line.startswith(f"{second} ") and f"[{by_id[second]['automatic_name']}]" in line for line in lines)
    assert {line.name: line.called for line in drawn[0].lines if line.called} == {first: "night batch"}
