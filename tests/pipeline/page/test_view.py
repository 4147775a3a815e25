"""What the page knows follows from the outputs, and is said as they say it."""

from datetime import UTC, datetime, timedelta

import orjson
import pytest
from resonance.pipeline.page import answers, view
from resonance.pipeline.page.answers import UnknownNameError
from resonance.pipeline.page.view import DeploymentView
from resonance.pipeline.records import Record
from resonance.pipeline.timestamps import canonical
from resonance.schemas import dead_letter_headers

from tests.pipeline.page import outputs
from tests.pipeline.page.outputs import record


@pytest.fixture
def shop():
    made = DeploymentView(outputs.NAME)
    for number in range(3):
        made.apply_cluster(*outputs.cluster(f"p0/1/{number}", size=100 * (number + 1)))
    made.apply_cluster(*outputs.cluster("p1/1/0"))
    return made


def happen(shop, kind, value, *, peers=False):
    entry = shop.read_output(kind, record(value), peers=peers)
    return None if entry is None else shop.add(entry)


def test_a_stream_shows_its_clusters_beside_the_others(shop):
    for second in range(8):
        shop.apply_answer(record(outputs.answer("p0", second % 2, second)).value, 1.0, counts=True)
    found = answers.stream(shop, "p0")
    assert [row["id"] for row in found["table"]] == ["p0/1/2", "p0/1/1", "p0/1/0"]
    largest = found["table"][0]
    assert largest["name"] == "latency_ms 300, errors 2"
    assert largest["salient"][0] == {
        "feature": "latency_ms",
        "centre": 300.0,
        "spread": 5.0,
        "rest": pytest.approx((200 * 200 + 100 * 100) / 300),
    }
    assert [row["share"] for row in found["table"]] == [0, 0.5, 0.5]
    assert found["last"] == outputs.time_of(7)


def test_an_answer_with_a_time_years_ahead_is_no_end_of_the_history(shop):
    ahead = time_text(datetime.now(UTC) + timedelta(days=3650))
    shop.apply_answer(record(outputs.answer("p0", 0, 0) | {"time": ahead}).value, 1.0, counts=True)
    known = answers.stream(shop, "p0")["last"]
    assert known < time_text(datetime.now(UTC) + timedelta(minutes=2))
    for _ in range(3):
        now = time_text(datetime.now(UTC))
        shop.apply_answer(record(outputs.answer("p0", 1, 0) | {"time": now}).value, 1.0, counts=True)
    history = answers.stream(shop, "p0")["history"]
    assert (history["step"], sum(history["total"])) == (1_000 * max(1, history["step"] // 1_000), 4)
    assert history["start"] < datetime.now(UTC).timestamp() * 1_000 + 120_000


def time_text(moment):
    return canonical(int(moment.timestamp() * 1_000))


def test_the_lives_of_clusters_have_their_ends_and_where_they_came_from(shop):
    happen(shop, "events", outputs.event("split", "p0/1/3", 3, 60, other="p0/1/0"))
    shop.apply_cluster(*outputs.cluster("p0/1/3", since=60, second=60))
    happen(shop, "events", outputs.event("absorbed", "p0/1/3", 4, 90, other="p0/1/1"))
    shop.apply_cluster(*outputs.cluster("p0/1/3", since=60, second=90, ended="absorbed", successors=["p0/1/1"]))
    lines = {line["id"]: line for line in answers.stream(shop, "p0")["lines"]}
    assert lines["p0/1/3"]["ended"] - lines["p0/1/3"]["born"] == 30_000
    assert (lines["p0/1/3"]["parent"], lines["p0/1/3"]["heir"]) == ("p0/1/0", "p0/1/1")
    assert lines["p0/1/0"]["ended"] is None
    gone = answers.cluster(shop, "p0/1/3")
    assert (gone["present"], gone["how"], gone["lineage"]["heir"]) == (False, "absorbed", "p0/1/1")
    assert answers.cluster(shop, "p0/1/0")["lineage"]["children"] == ["p0/1/3"]
    assert [each["id"] for each in answers.cluster(shop, "p0/1/1")["lineage"]["absorbed"]] == ["p0/1/3"]
    assert answers.cluster(shop, "p0/1/1")["profile"][0]["feature"] == "latency_ms"
    assert [each["what"] for each in gone["events"]] == ["absorbed", "split"]


def test_incidents_come_first_with_their_alerts_behind_them(shop):
    assert answers.overview(shop, most=1)["incidents"] == []
    happen(shop, "alerts", outputs.alert("opened", "p0", 60))
    happen(shop, "drift", outputs.drift("drift", "p0/1/0", 0, 61))
    happen(shop, "events", outputs.event("emerged", "p0/1/7", 1, 62))
    (shown,) = answers.overview(shop, most=1)["incidents"]
    assert (shown["severity"], shown["is_open"], shown["text"][:4]) == ("critical", True, "p0: ")
    assert answers.stream(shop, "p0")["incidents"] == [shown]
    assert answers.stream(shop, "p1")["incidents"] == []
    found = answers.incident(shop, shown["key"])
    assert answers.incident(shop, "p0/1/drift/0") == found
    assert (found["streams"], found["known"], found["signs"]) == (["p0"], 2, 2)
    assert [each["what"] for each in found["entries"]] == ["drift", "unlike opened"]
    happen(shop, "alerts", outputs.alert("cleared", "p0", 70))
    happen(shop, "drift", outputs.drift("settled", "p0/1/0", 1, 71) | {"opened": 0})
    assert not answers.overview(shop, most=1)["incidents"][0]["is_open"]
    with pytest.raises(UnknownNameError, match=r"no incident orders/unlike/p9/1/0 .*orders/unlike/p0/1/0"):
        answers.incident(shop, "orders/unlike/p9/1/0")


def test_incidents_that_take_long_are_shown_as_of_a_while_ago(shop, monkeypatch):
    moments = iter([0.0, 0.0, 2.0, 30.0, 50.0, 50.0, 60.0])
    monkeypatch.setattr(view.time, "monotonic", lambda: next(moments))
    made = DeploymentView(outputs.NAME)
    assert made.incidents() == []
    happen(made, "alerts", outputs.alert("opened", "p0", 60))
    assert made.incidents() == []
    assert len(made.incidents()) == 1


def test_a_tombstone_and_the_end_of_a_stream_remove_clusters(shop):
    shop.apply_cluster(b"p0/1/0", None)
    assert "p0/1/0" not in shop.streams["p0"].clusters
    assert shop.detail("p0/1/0") is None
    happen(shop, "events", outputs.event("stream_ended", "p0/1/0") | {"cluster": None})
    assert list(shop.streams) == ["p1"]
    assert shop.detail("p0/1/1") is None


def test_the_end_of_an_earlier_life_leaves_the_clusters_of_the_next(shop):
    shop.apply_cluster(*outputs.cluster("p0/2/0"))
    happen(shop, "events", outputs.event("stream_ended", "p0/1/0") | {"cluster": None})
    assert "p0/2/0" in shop.streams["p0"].clusters


def name(shop, cluster, text):
    value = None if text is None else {"cluster": cluster, "name": text, "time": outputs.time_of(0)}
    return shop.apply_name(cluster.encode(), None if value is None else record(value).value)


def test_clusters_have_the_names_that_people_gave_them(shop):
    happen(shop, "events", outputs.event("emerged", "p0/1/0"))
    assert name(shop, "p0/1/0", "night batch") == "p0"
    assert name(shop, "p0/1/2", "checkout") is None
    happen(shop, "events", outputs.event("split", "p0/1/1", 1, 5, other="p0/1/0"))
    shop.apply_cluster(*outputs.cluster("p0/1/3", second=9, ended="absorbed", successors=["p0/1/2"]))
    name(shop, "p0/1/3", "old one")
    happen(shop, "events", outputs.event("absorbed", "p0/1/3", 2, 9, other="p0/1/2"))
    names = {"p0/1/0": "night batch", "p0/1/1": "from night batch", "p0/1/2": "checkout", "p0/1/3": "old one"}
    found = answers.stream(shop, "p0")
    assert found["names"] == names
    texts = [entry["text"] for entry in found["events"]]
    assert texts[0].startswith("cluster p0/1/3 (old one) was absorbed by p0/1/2 (checkout) after")
    assert texts[2].startswith("cluster p0/1/0 (night batch) emerged")
    assert answers.cluster(shop, "p0/1/2")["names"] == {each: names[each] for each in ("p0/1/2", "p0/1/3")}
    assert answers.cluster(shop, "p0/1/0")["names"] == {each: names[each] for each in ("p0/1/0", "p0/1/1")}
    found = shop.timeline.select(9, search="Night Batch", names=shop.names)
    assert [each.cluster for each in found] == ["p0/1/1", "p0/1/0"]
    name(shop, "p0/1/0", None)
    assert "p0/1/0" not in answers.stream(shop, "p0")["names"]


def test_streams_are_found_by_the_names_of_their_clusters(shop):
    name(shop, "p1/1/0", "night batch")
    rows = answers.overview(shop, "NIGHT", most=9)["rows"]
    assert [(row["stream"], row["called"]) for row in rows] == [("p1", ["night batch"])]


def test_a_cluster_shows_its_typical_records_and_what_prints_them(shop):
    source = {"topic": "orders", "partition": 3, "offset": 17}
    shop.apply_cluster(*outputs.cluster("a b/1/0", examples=[{"id": "o-17", "source": source, "score": 0.9}]))
    found = answers.cluster(shop, "a b/1/0")
    assert found["examples"] == [{"id": "o-17", "where": "orders[3]@17", "score": 0.9}]
    assert found["command"] == "resonance inspect 'a b/1/0' --records"
    assert answers.cluster(shop, "p0/1/0")["examples"] == []


@pytest.mark.parametrize("text", ["18446744073709551617", "9007199254740993", "0.12345678901234567891", "1.0", "7"])
def test_a_record_shows_every_digit_of_its_id(shop, text):
    source = {"topic": "orders", "partition": 3, "offset": 17}
    key, value = outputs.cluster("a/1/0", examples=[{"id": "ID", "source": source, "score": 0.9}])
    shop.apply_cluster(key, value.replace(b'"ID"', text.encode()))
    assert orjson.loads(orjson.dumps(answers.cluster(shop, "a/1/0")))["examples"][0]["id"] == text


def test_drifts_and_alerts_are_open_until_they_end(shop):
    happen(shop, "drift", outputs.drift("drift", "p0/1/0"))
    happen(shop, "alerts", outputs.alert("opened", "p1"))
    shop.tick()
    rows = {row["stream"]: row for row in answers.overview(shop, most=10)["rows"]}
    assert rows["p0"]["drift"] == "p0/1/0 changed, seen at 0"
    assert (rows["p0"]["alerts"], rows["p1"]["alerts"]) == (0, 1)
    assert shop.headline() | {"drifts": 1, "alerts": 1} == shop.headline()
    assert answers.stream(shop, "p1")["open"][0]["severity"] == "critical"
    happen(shop, "drift", outputs.drift("settled", "p0/1/0", 1))
    happen(shop, "alerts", outputs.alert("cleared", "p1"))
    assert shop.headline() | {"drifts": 0, "alerts": 0} == shop.headline()


@pytest.mark.parametrize("started_first", [False, True])
def test_a_new_version_ends_the_drift_of_the_one_before(shop, started_first):
    # Two topics, which are read in any order.
    both = [("drift", outputs.drift("drift", "p0/1/0")), ("events", outputs.version_started("p0", 2, 1))]
    for kind, value in reversed(both) if started_first else both:
        happen(shop, kind, value)
    found = answers.stream(shop, "p0")
    assert (found["drift"], len(found["drifts"]), shop.headline()["drifts"]) == (None, 1, 0)
    happen(shop, "drift", outputs.drift("drift", "p0/2/0", 1, 2) | {"version": 2})
    assert shop.headline()["drifts"] == 1


def test_a_cluster_of_a_new_version_ends_the_drift_of_the_one_before(shop):
    happen(shop, "drift", outputs.drift("drift", "p0/1/0"))
    shop.apply_cluster(*outputs.cluster("p0/1/1", second=1))
    assert shop.headline()["drifts"] == 1
    shop.apply_cluster(*outputs.cluster("p0/2/0", second=2))
    assert shop.headline()["drifts"] == 0


def test_a_new_cluster_is_described_beside_the_others(shop):
    alone = happen(shop, "events", outputs.event("emerged", "p0/1/4"))
    beside = happen(shop, "events", outputs.event("emerged", "p0/1/4"), peers=True)
    assert alone.text == "cluster p0/1/4 emerged: errors 2, latency_ms 500; 100 records"
    assert beside.text == "cluster p0/1/4 emerged: latency_ms 500, errors 2; 100 records"
    assert happen(shop, "events", {"no": "event"}) is None


def test_an_answer_counts_for_those_that_were_not_read(shop):
    shop.tick()
    shop._ticked -= 1
    for second in range(4):
        value = record(outputs.answer("p0", 0, second, novel=second == 0)).value
        shop.apply_answer(value, 25.0, counts=True)
        shop.apply_answer(record(outputs.answer("p1", 0, second)).value, 25.0, counts=False)
    shop.tick()
    rows = {row["stream"]: row for row in answers.overview(shop, most=10)["rows"]}
    assert rows["p0"]["rate"] == pytest.approx(100 / view.SMOOTHING, rel=0.2)
    assert rows["p0"]["novelty"] == pytest.approx(0.25)
    assert (rows["p1"]["rate"], rows["p1"]["novelty"]) == (0, None)


def test_streams_are_searched_sorted_and_shown_in_parts(shop):
    for number in range(300):
        shop.apply_cluster(*outputs.cluster(f"shop-{number:03d}/1/0"))
    found = answers.overview(shop, "SHOP-1", "stream", ascending=True, start=98, most=5)
    assert (found["found"], [row["stream"] for row in found["rows"]]) == (100, ["shop-198", "shop-199"])
    first = answers.overview(shop, order="clusters", most=2)
    assert [row["stream"] for row in first["rows"]] == ["p0", "p1"]
    assert len(answers.overview(shop, most=10_000)["rows"]) == answers.MOST_ROWS


@pytest.mark.parametrize(
    ("read", "name", "sentence"),
    [
        (answers.stream, "p9", r"no stream p9 \(did you mean p[01] or p[01]\?\) among 2 streams"),
        (answers.cluster, "p0/1/77", r"stream p0 has no cluster p0/1/77 \(did you mean p0/1/"),
        (answers.cluster, "q0/1/7", "no cluster q0/1/7.* among 2 streams"),
        (answers.cluster, "", "no stream "),
    ],
)
def test_an_unknown_name_is_answered_with_similar_ones(shop, read, name, sentence):
    with pytest.raises(UnknownNameError, match=sentence):
        read(shop, name)


def test_nothing_grows_without_end(shop, monkeypatch):
    monkeypatch.setattr(view, "MOST_STREAMS", 5)
    monkeypatch.setattr(view, "MOST_CLUSTERS", 4)
    for number in range(20):
        shop.apply_cluster(*outputs.cluster(f"s{number}/1/0"))
        shop.apply_cluster(*outputs.cluster(f"p0/1/{number}"))
        ended = {"ended": "vanished", "successors": []}
        for _ in range(3):
            shop.apply_cluster(*outputs.cluster(f"p1/1/{number}", **ended))
    assert len(shop.streams) == 5
    assert shop.headline()["streams"] == 5 + 5
    assert len(shop.streams["p0"].clusters) == 4
    assert len(shop._details) == 4 + 3
    for number in range(5):
        happen(shop, "events", outputs.event("split", f"p0/1/{100 + number}", other="p0/1/0"))
    assert len(shop.streams["p0"].parents) == 4
    assert len(shop.streams["p1"].ended) == 20


def test_what_is_no_output_is_left_out(shop):
    before = shop.headline()
    for value in (b"{", b"[]", b'{"stream": "p0"}', b'{"stream": 3, "size": null}'):
        shop.apply_cluster(b"p0/1/0", value)
        shop.apply_answer(value, 1.0, counts=True)
    assert shop.headline() == before


def test_dead_letters_are_counted_by_their_reason():
    shop = DeploymentView(outputs.NAME)
    reason = {"topic": "orders", "partition": 0, "offset": 3, "stage": "decode", "class": "not_json"}
    headers = dead_letter_headers("shop", reason | {"message": "not JSON"})
    for _ in range(3):
        shop.apply_dead_letter(Record("shop.dead-letters", 0, 0, 5, None, b"{", headers), 2.0)
    shop.apply_dead_letter(Record("shop.dead-letters", 0, 0, 5, None, b"{"), 2.0)
    assert shop.dead_letters == {
        ("orders[0]", "decode", "not_json"): {"count": 6.0, "time": 5, "example": "orders[0]@3", "message": "not JSON"}
    }
