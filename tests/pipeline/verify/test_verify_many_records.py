"""Messages with many records: what was recorded of them is verified, and a killed worker repeats or loses nothing."""

import orjson
import pytest

from tests.pipeline.memory_deployment import MemoryDeployment, packed, rekeyed
from tests.pipeline.streams import TOPIC


@pytest.fixture
def deployment(monkeypatch):
    """One partition with two streams: archived, killed without snapshots, and worked on to the end."""
    made = packed(MemoryDeployment(monkeypatch, input__records=".", input__id_path="id"))
    made.work(20, archive=True)
    made.work(40, snapshots=False)
    made.work(60)
    return made


def test_everything_is_identical(deployment):
    verdict = deployment.verify()
    assert verdict.identical
    (part,) = verdict.parts
    assert (part.records, part.assignments, part.dead_letters) == (60, 589, 2)
    assert part.events == len(deployment.recorded("cluster_events")) > 5


def test_a_killed_worker_has_the_outputs_and_states_of_an_uninterrupted_one(deployment, monkeypatch):
    whole = packed(MemoryDeployment(monkeypatch, input__records=".", input__id_path="id"))
    whole.work(60)
    for kind in ("assignments", "cluster_events", "drift_events", "dead_letters", "alerts", "clusters"):
        assert [record[4:] for record in deployment.recorded(kind)] == [record[4:] for record in whole.recorded(kind)]
    parts = [made.restored(TOPIC)[TOPIC, 0].task for made in (whole, deployment)]
    assert len({part.partition_state() for part in parts}) == 1
    assert len({tuple(model.state() for model in part.models) for part in parts}) == 1


@pytest.mark.parametrize("kind", ["assignments", "cluster_events", "dead_letters"])
def test_a_changed_missing_or_surplus_output_is_found(deployment, kind):
    log = deployment.recorded(kind)
    place = len(log) // 2
    about = orjson.loads(log[place].value) if kind != "dead_letters" else {}
    offset = about["cause"]["source"]["offset"] if "cause" in about else about.get("source", {"offset": 30})["offset"]
    kept = log[place]
    log[place] = kept._replace(key=b"other")
    assert deployment.verify().parts[0].difference.offset == offset
    del log[place]
    difference = deployment.verify().parts[0].difference
    # Others of its record may be compared with it.
    left = [orjson.loads(record.value) for record in log] if kind == "cluster_events" else []
    is_alone = all(each["cause"]["source"]["offset"] != offset for each in left)
    assert (difference.offset, difference.what) == (offset, "missing" if is_alone else "other")
    if kind == "assignments":
        assert difference.about == f"{TOPIC}[0]@{offset}.{about['source']['index']}"


def test_rekeyed_records_verify_in_both_stages_after_kills(monkeypatch):
    made = packed(rekeyed(monkeypatch, input__records="."))
    made.turn(0.5, archive=True)
    made.turn(0.7, lost=True)
    made.turn(0.6, kept=False)
    made.turn(everything=True)
    made.turn()
    verdict = made.verify()
    assert verdict.identical
    assert sum(part.routes for part in verdict.parts) == 900 - 2 * 10 - 2
    assert sum(part.dead_letters for part in verdict.parts) == 4
    answers = [orjson.loads(record.value)["source"] for partition in made.partitions
               for record in made.recorded("assignments", partition)]  # fmt: skip
    assert len({(each["partition"], each["offset"], each["index"]) for each in answers}) == len(answers) == 878
