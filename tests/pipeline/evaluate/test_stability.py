"""Stability: a plain loop over the engine, and the events of replay, give the same at every checkpoint."""

import orjson
import pytest
from resonance.engine.estimator import StreamClusterer

from tests.pipeline.commands import run
from tests.pipeline.streams import BRISK, FORGETFUL, LIVELY, points, value_of

ROWS = points(2_400)
GIVEN = ["--topics", "features", "--set", 'input.features=["cpu","latency_ms","net.in"]']
PART, FOLLOWED = 300, 250

WARMUP = LIVELY["prepare.warmup_records"]
PARAMETERS = {
    engine: {name.removeprefix("engine."): value for name, value in {**LIVELY, **own}.items() if "engine." in name}
    for engine, own in (("modal", FORGETFUL), ("caea", BRISK))
}


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Return the options of a command with an engine whose clusters change often."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(value_of(row) for row in ROWS.tolist()))

    def of(engine):
        changes = {"prepare.warmup_records": WARMUP, "engine.name": engine}
        changes |= {f"engine.{name}": value for name, value in PARAMETERS[engine].items()}
        return ["rows.jsonl", *GIVEN, *(f"--set={name}={value}" for name, value in changes.items())]

    return of


def looks(engine):
    """At the end of each part, the clusters of its records and of those of the part before."""
    model = StreamClusterer(engine, parameters=PARAMETERS[engine], warmup_records=WARMUP)
    sample = [place * (PART - 1) // (FOLLOWED - 1) for place in range(FOLLOWED)]
    before = None
    for begin in range(0, len(ROWS), PART):
        part = ROWS[begin : begin + PART]
        model.partial_fit(part)
        yield begin + PART, model.predict(part[sample]), None if before is None else model.predict(before)
        before = part[sample]


def reachable(cluster, events):
    """The clusters in which a record may be after some events, if it was in one before."""
    found = {cluster}
    for event in events:
        if event["kind"] == "split" and event["other"] in found:
            found.add(event["cluster"])
        if event["kind"] == "absorbed" and event["cluster"] in found:
            found.add(event["other"])
    return found


@pytest.mark.parametrize("engine", PARAMETERS)
def test_stability_is_that_of_records_that_are_followed_one_by_one(engine, options, tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, "replay", *options(engine), "-o", str(tmp_path / "out")) == 0
    events = [orjson.loads(line)["value"] for line in (tmp_path / "out" / "cluster-events.jsonl").open()]
    expected, unchanged, seen = [], 0, []
    for at, now, again in looks(engine):
        if again is not None:
            since = [each for each in events if at - PART <= each["cause"]["source"]["offset"] < at]
            followed = same = 0
            for old, new in zip(seen, again, strict=True):
                if old != -1:
                    followed += 1
                    same += f"p0/1/{new}" in reachable(f"p0/1/{old}", since)
                    unchanged += old == new
            expected.append({"at": at, "followed": followed, "same": same})
        seen = now
    capsys.readouterr()
    assert run(monkeypatch, "evaluate", *options(engine), "--processes", "1", "--json") == 0
    (candidate,) = orjson.loads(capsys.readouterr().out)["candidates"]
    assert candidate["checkpoints"] == expected
    followed, same = (sum(each[name] for each in expected) for name in ("followed", "same"))
    assert candidate["figures"]["stability"] == pytest.approx(same / followed)
    # Some records moved to another cluster, and of some only the lineage says that they did not.
    assert unchanged < same < followed
