"""Streams of a file that are unlike the others: a replay lists them without a broker, learned or not."""

import random

import orjson
import pytest
from resonance.pipeline.peers.peers import UnlikeFeature
from resonance.pipeline.replay.file_peers import dated

from tests.pipeline.commands import run


def fleet(path, begin, end, off=17.0):
    """Hours of ten devices, of which one has always been elsewhere in one feature."""
    noise = random.Random(begin)
    rows = [
        f"2026-03-{1 + n // 288:02}T{n // 12 % 24:02}:{5 * (n % 12):02}:00Z,dev-{k},{noise.gauss(40 + k / 9, 2):.2f},"
        f"{noise.gauss(off if k == 6 else 12, 0.5):.2f}"
        for n in range(begin, end)
        for k in range(10)
    ]
    path.write_text("\n".join(["time,device,heat,load", *rows]) + "\n")


def test_a_replay_names_the_stream_of_its_files_that_has_always_been_unlike_the_others(tmp_path, printed):
    fleet(tmp_path / "one.csv", 0, 500)
    fleet(tmp_path / "two.csv", 500, 900)
    said = printed(run, "replay", "one.csv", "two.csv", "--yes")
    (line,) = [line for line in said.out.splitlines() if line.startswith("p0:dev-")]
    assert line.split()[:3] == ["p0:dev-6", "load", "high"]
    assert "1 of 10 streams is unlike its peers in its recent records" in said.out + said.err
    found = orjson.loads(printed(run, "replay", "one.csv", "two.csv", "--yes", "--partitions", "2", "--json").out)
    (unlike,) = found["peers"]["unlike"]
    assert (unlike["stream"].partition(":")[2], unlike["feature"], unlike["change"]) == ("dev-6", "load", "high")
    assert found["peers"]["compared"] == 10


def test_since_when_a_stream_is_unlike_the_others_is_that_of_its_incident(tmp_path, printed):
    fleet(tmp_path / "one.csv", 0, 700, off=12.0)
    fleet(tmp_path / "two.csv", 700, 1_100)
    found = orjson.loads(printed(run, "replay", "one.csv", "two.csv", "--yes", "--json").out)
    (incident,) = [each for each in found["incidents"] if each["streams"] == ["p0:dev-6"]]
    (unlike,) = found["peers"]["unlike"]
    assert unlike["since"] == incident["since"] and incident["since"].startswith("2026-03-03T10:")


def test_a_later_change_the_other_way_is_not_since_when_it_is_unlike_them(tmp_path, printed):
    fleet(tmp_path / "one.csv", 0, 700, off=12.0)
    fleet(tmp_path / "two.csv", 700, 1_400, off=22.0)
    fleet(tmp_path / "three.csv", 1_400, 2_100)
    files = "one.csv", "two.csv", "three.csv"
    found = orjson.loads(printed(run, "replay", *files, "--yes", "--json").out)
    newest, *_, first = [each for each in found["incidents"] if each["streams"] == ["p0:dev-6"]]
    assert newest["features"][0]["value"] < newest["features"][0]["usual"]
    (unlike,) = found["peers"]["unlike"]
    assert unlike["since"] == first["since"] and first["since"].startswith("2026-03-03T10:")


@pytest.mark.parametrize(
    ("value", "newer", "since"), [(175.0, {}, "then"), (1.0, {}, "by itself"), (175.0, {"ratio": 4.0}, "later")]
)
def test_what_went_up_by_a_factor_varies_more_since_then_unless_an_incident_says_when(value, newer, since):
    def incident(time, **members):
        feature = {"feature": "load", "value": value, "usual": 10.0, **members}
        return {"streams": ["p0:d1"], "known": 4, "features": [feature], "since": time}

    row = UnlikeFeature("p0:d1", "load", "varies more", 9.0, 1.0, 0.5, 2.0, 8.0, "by itself", None, [])
    incidents = [*([incident("later", **newer)] if newer else []), incident("then")]
    assert [each.since for each in dated([row], incidents)] == [since]


def test_streams_that_are_alike_and_records_of_one_stream_name_none(tmp_path, printed):
    fleet(tmp_path / "own.csv", 0, 600, off=12.0)
    assert "unlike" not in printed(run, "replay", "own.csv", "--yes").out
    one = orjson.loads(printed(run, "replay", "own.csv", "--yes", "--set", "stream=topic", "--json").out)
    assert (one["peers"]["streams"], one["peers"]["unlike"]) == (0, [])
