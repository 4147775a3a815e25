"""Sparse records and their dictionaries through snapshots, archives, replay, new versions and `resonance inspect`."""

import orjson
import pytest
from resonance.pipeline.inspect.inspection import inspect
from resonance.pipeline.inspect.listing import read_states
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import recovery
from resonance.pipeline.task.encode import cluster_description

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.sparse_streams import by_name, entries, sparse_settings
from tests.pipeline.streams import STAMP, TOPIC, payloads, settings

OPTIONS = ("inspect", "--topics", TOPIC, "--name", "resonance", "--stream", "p0:a")


@pytest.fixture
def deployment(monkeypatch, tmp_path):
    """Two streams of sparse records, worked on in three parts, archived behind the first two."""
    monkeypatch.chdir(tmp_path)
    made = MemoryDeployment(monkeypatch, records=0)
    made.take_settings(sparse_settings(stream="key", input__id_path="id"))
    for i, record in enumerate(entries(400)):
        value = orjson.dumps({"id": f"r{i}", "words": {} if i == 50 else by_name(record)})
        made.append((TOPIC, 0), Message(b"ab"[i % 2 :][:1], value, []), timestamp=STAMP + 1_000 * i)
    for until in (150, 300):
        made.work(until, archive=True, everything=True)
    made.work(400, everything=True)
    return made


def dictionaries(deployment):
    found = inspect(deployment.given, deployment, read_states(deployment.source, deployment))
    return {stream.stream: stream.features for stream in found}


def test_inspection_has_the_dictionary_and_what_is_salient(deployment, printed):
    first = [name for place in range(0, 400, 2) if place != 50 for name in by_name(entries(400)[place])]
    assert dictionaries(deployment)["p0:a"] == list(dict.fromkeys(first))
    # Its snapshots are read under the settings that they were made with.
    deployment.take_settings(settings(stream="key"))
    shown = orjson.loads(printed(run, *OPTIONS, "--json").out)
    assert shown["features"] == list(dict.fromkeys(first))
    cluster = shown["clusters"][0]
    assert set(cluster["salient"][0]) == {"feature", "salience", "weight"}
    assert set(cluster["centre"]) <= set(first)
    out = printed(run, *OPTIONS, "--wide").out
    assert "p0:a, version 1 (sa_art): " in out
    assert " clusters after 199 records" in out
    assert "most salient features (salience x weight)" in out
    best = cluster["salient"][0]
    assert f"{best['feature']} {best['salience']:.2f}x{best['weight']:.2f}, " in out


def test_inspection_promises_no_more_than_it_has(deployment, monkeypatch, printed):
    monkeypatch.setattr(cluster_description, "CENTRE_BYTES", 700)
    clusters = orjson.loads(printed(run, *OPTIONS, "--json").out)["clusters"]
    most, omitted = (max(counts) for counts in zip(*((len(c["centre"]), c["omitted"]) for c in clusters), strict=True))
    assert most > 6
    assert omitted
    assert printed(run, *OPTIONS, "--wide").out.splitlines()[-2:] == [
        f"{most - 6} more features: --json has them",
        f"up to {omitted} features of a cluster are left out, those with the smallest means relative to their ranges: "
        "a message would not hold them",
    ]


@pytest.mark.parametrize("engine", ["fuzzy_art", "sa_art"])
def test_inspection_of_clusters_with_features_of_their_own(engine, deployment, printed):
    dense = engine == "sa_art"
    given = (
        {"input__sparse": None, "input__features": "words", "prepare__missing": 0.0, "prepare__scale": "none"}
        if dense
        else {}
    )
    deployment.take_settings(sparse_settings(stream="key", engine__name=engine, **given))
    deployment.logs = {at: [] if at[0] != TOPIC else log for at, log in deployment.logs.items()}
    deployment.offsets.clear()
    deployment.work(400, everything=True)
    out = printed(run, *OPTIONS, "--wide").out
    assert ("most salient features" if dense else "largest means") in out
    assert " ± " in out or dense


def test_a_new_version_has_a_dictionary_of_its_own(deployment):
    before = dictionaries(deployment)
    deployment.take_settings(
        sparse_settings(stream="key", input__id_path="id", prepare__scale="given", prepare__ranges={"*": [0, 2]})
    )
    assert recovery.begin_versions(deployment.source) == 1
    for i, record in enumerate(entries(440, seed=1)[400:], start=400):
        value = orjson.dumps({"id": f"r{i}", "words": by_name(record)})
        deployment.append((TOPIC, 0), Message(b"ab"[i % 2 :][:1], value, []), timestamp=STAMP + 1_000 * i)
    assert {answer["version"] for answer in payloads(deployment.work(440, everything=True).assignments)} == {2}
    after = dictionaries(deployment)
    assert after["p0:a"] != before["p0:a"][: len(after["p0:a"])]
    assert deployment.verify().identical
