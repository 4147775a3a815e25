"""Two deployments on the same input, compared: every figure equals one computed from the recorded assignments."""

from collections import Counter, defaultdict
from dataclasses import replace

import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.evaluate.report import DATA, PAGE
from resonance.pipeline.shadow import deployments
from sklearn import metrics

from tests.pipeline.commands import run
from tests.pipeline.evaluate.test_report import Page
from tests.pipeline.memory_deployment import packed
from tests.pipeline.shadow.two import LIVE, SHADOW, Both, both
from tests.pipeline.streams import TOPIC, payloads, settings

__all__ = ["both"]


def compared(monkeypatch, capsys, *options, code=0):
    assert run(monkeypatch, "compare", LIVE, SHADOW, "--json", *options) == code
    return orjson.loads(capsys.readouterr().out)


def answers(deployment):
    return {one["source"]["offset"]: one for one in payloads(deployment.recorded())}


def by_stream(ours, theirs, figure):
    """Mean of a figure over the streams, weighted by their records."""
    streams = defaultdict(list)
    for offset, answer in theirs.items():
        streams[answer["stream"]].append(offset)
    return sum(
        len(own) * figure([ours[at]["cluster"] or "" for at in own], [theirs[at]["cluster"] or "" for at in own])
        for own in streams.values()
    ) / len(theirs)


def test_the_figures_are_those_of_the_recorded_assignments(both, monkeypatch, capsys):
    found = compared(monkeypatch, capsys)
    ours, theirs = answers(both.live), answers(both.shadow)
    assert ours.keys() == theirs.keys()
    assert (found["records"], found["compared"]) == (600, 600)
    live, shadow = found["deployments"]
    assert (live["name"], live["engine"], shadow["name"], shadow["engine"]) == (LIVE, "modal", SHADOW, "caea")
    for name, figure in {"ari": metrics.adjusted_rand_score, "ami": metrics.adjusted_mutual_info_score}.items():
        assert shadow["figures"][name] == pytest.approx(by_stream(ours, theirs, figure))
        assert name not in live["figures"]
    for one, deployment, answered in ((live, both.live, ours), (shadow, both.shadow, theirs)):
        events = payloads(deployment.recorded("cluster_events"))
        assert one["events"] == Counter(event["kind"] for event in events)
        assert one["figures"]["events"] == pytest.approx(1_000 * len(events) / 600)
        assert one["figures"]["novelty"] == pytest.approx(sum(each["novel"] for each in answered.values()) / 600)
        without = sum(each["cluster"] is None for each in answered.values())
        assert one["figures"]["unanswered"] == pytest.approx(without / 600)
        assert one["figures"]["bytes"] > 1_000


def test_the_clusters_are_counted_together(both, monkeypatch, capsys):
    found = compared(monkeypatch, capsys)
    ours, theirs = answers(both.live), answers(both.shadow)

    def group(answer):
        return answer["cluster"] or f"none of {answer['stream']}"

    together = Counter((group(ours[at]), group(theirs[at])) for at in ours)
    sizes = [Counter(map(group, each.values())) for each in (ours, theirs)]
    overlap = {(a, b): count / (sizes[0][a] + sizes[1][b] - count) for (a, b), count in together.items()}
    listed = {
        tuple(one["clusters"]): (one["both"], one["overlap"])
        for one in found["clusters"]
        if None not in one["clusters"]
    }
    real = {pair for pair in together if not any(name.startswith("none") for name in pair)}
    assert listed == {pair: (together[pair], pytest.approx(overlap[pair])) for pair in real}
    agreeing = {a: b for a, b in real if 2 * together[a, b] > sizes[0][a] and 2 * together[a, b] > sizes[1][b]}
    assert found["agreeing"] == agreeing
    assert 0 < len(agreeing) < len({a for a, _ in real})
    order = sorted(ours, key=lambda at: (overlap[group(ours[at]), group(theirs[at])], at))
    assert [one["offset"] for one in found["disagreeing"]] == order[:20]


def test_a_range_has_its_own_figures(both, monkeypatch, capsys):
    found = compared(monkeypatch, capsys, "--from", "200", "--to", "300")
    assert found["records"] == 100
    assert found["ranges"] == [{"topic": TOPIC, "partition": 0, "from": 200, "to": 300}]
    events = payloads(both.live.recorded("cluster_events"))
    inside = [event for event in events if 200 <= event["cause"]["source"]["offset"] < 300]
    assert sum(found["deployments"][0]["events"].values()) == len(inside)


def test_only_what_both_have_answered_is_compared(monkeypatch, capsys):
    both = Both(monkeypatch, engine__name="caea")
    both.live.work(600, everything=True)
    both.shadow.work(450, everything=True)
    found = compared(monkeypatch, capsys)
    assert (found["records"], found["ranges"][0]["to"]) == (450, 450)


def test_the_same_settings_agree_in_everything(monkeypatch, capsys):
    both = Both(monkeypatch)
    for one in (both.live, both.shadow):
        one.work(600, everything=True)
    found = compared(monkeypatch, capsys)
    assert found["deployments"][1]["figures"]["ari"] == 1
    assert found["disagreeing"] == []
    assert all(one["agree"] for one in found["clusters"])


def test_an_event_that_came_again_counts_once(both, monkeypatch, capsys):
    before = compared(monkeypatch, capsys)
    both.live.again("cluster_events", 0, 5)
    both.live.again("assignments", 0, 100)
    assert compared(monkeypatch, capsys) == before


def test_the_report_has_the_numbers_of_the_document(both, monkeypatch, capsys, tmp_path):
    found = compared(monkeypatch, capsys, "--output", str(tmp_path / "out"))
    written = orjson.loads((tmp_path / "out" / DATA).read_bytes())
    assert {**written, "command": ""} == {**found, "command": ""}
    page = Page((tmp_path / "out" / PAGE).read_text())
    assert f"{SHADOW} beside {LIVE}" in page.texts
    rows = {row[0]: row for table in reversed(page.tables) for row in table}
    assert rows[SHADOW][1] == f"{round(found['deployments'][1]['figures']['ari'], 3):.4g}"
    for one in found["disagreeing"]:
        assert f"{TOPIC}[0]@{one['offset']}" in rows
    assert any(tag == "img" for tag, _ in page.tags)


def test_what_disagrees_most_is_shown_with_its_contents(both, monkeypatch, capsys, tmp_path):
    log = both.live.logs[TOPIC, 0]
    found = compared(monkeypatch, capsys, "--contents", "--output", str(tmp_path / "out"))["disagreeing"]
    assert len(found) == 20
    for one in found:
        record = log[one["offset"]]
        assert (one["key"], one["value"], one["missing"]) == (record.key.decode(), orjson.loads(record.value), None)
    page = Page((tmp_path / "out" / PAGE).read_text())
    (table,) = (table for table in page.tables if table[0] == ["record", "value"])
    assert table[1:] == [[f"{TOPIC}[0]@{one['offset']}", orjson.dumps(one["value"]).decode()] for one in found]
    assert run(monkeypatch, "compare", LIVE, SHADOW, "--contents") == 0
    assert [f"{place}: {value}" for place, value in table[1:]] == capsys.readouterr().out.splitlines()[-21:-1]


def test_a_record_that_disagrees_and_is_deleted_has_the_reason(both, monkeypatch, capsys):
    first, *_ = compared(monkeypatch, capsys)["disagreeing"]
    log = both.live.logs[TOPIC, 0]
    log.remove(next(record for record in log if record.offset == first["offset"]))
    one, *others = compared(monkeypatch, capsys, "--contents")["disagreeing"]
    assert one == {**first, "missing": "it is deleted: the topic is compacted"}
    assert all(other["value"] for other in others)


def test_cost_is_cpu_time_of_learning_again(both, monkeypatch, capsys):
    found = compared(monkeypatch, capsys, "--cost")["deployments"]
    assert all(one["figures"]["microseconds"] > 0 for one in found)
    for one in compared(monkeypatch, capsys)["deployments"]:
        assert one["figures"]["microseconds"] is None


def test_it_is_shown_as_text(both, printed):
    shown = printed(run, "compare", LIVE, SHADOW)
    assert "600 of 600 records have an answer of both: ARI 0." in shown.out
    for text in ("deployment", f"cluster of {LIVE}", "emerged", "features[0]@"):
        assert text in shown.out


@pytest.mark.parametrize(
    ("names", "code", "text"),
    [
        ((LIVE, "ordres-shadow"), 69, "there is no deployment ordres-shadow .* did you mean orders-shadow.snapshots"),
        ((LIVE, LIVE), 2, "orders and orders are one deployment; name two"),
    ],
)
def test_a_deployment_that_does_not_exist(both, names, code, text, printed):
    error = printed(run, "compare", *names, code=code).err
    assert "Traceback" not in error
    assert_in_order(error, text)


def assert_in_order(shown, text):
    for part in text.split(" .* "):
        assert part in shown
        shown = shown[shown.index(part) :]


def test_nothing_in_common(monkeypatch, printed):
    both = Both(monkeypatch)
    both.live.work(300, everything=True)
    both.shadow.work(600, everything=True)
    assert "orders and orders-shadow have no answers in common in that range: it has 0 of orders and 300 of" in (
        printed(run, "compare", LIVE, SHADOW, "--from", "300", code=69).err
    )


def test_a_deployment_that_has_learned_nothing_of_the_input(monkeypatch, capsys):
    both = Both(monkeypatch)
    both.live.work(300, everything=True)
    assert run(monkeypatch, "compare", LIVE, SHADOW) == 69
    assert "orders-shadow has no snapshot of features yet, or reads another input" in capsys.readouterr().err


def test_deployments_on_different_inputs(both, monkeypatch, capsys):
    whole = deployments.newest_records

    def newest(reader, source):
        found = whole(reader, source)
        if source.group == LIVE:
            return found
        other = {at: replace(one.identity, inputs=(*one.identity.inputs, "more")) for at, one in found.items()}
        return {at: replace(one, identity=other[at]) for at, one in found.items()}

    monkeypatch.setattr(deployments, "newest_records", newest)
    assert run(monkeypatch, "compare", LIVE, SHADOW) == 2
    assert "orders reads features, and orders-shadow reads features, more; only" in capsys.readouterr().err


def test_a_shadow_raises_no_alerts():
    assert settings().raises_alerts
    assert not settings(name=SHADOW, shadow_of=LIVE).raises_alerts


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": LIVE}, "shadow_of = 'orders': must be another deployment"),
        ({"name": SHADOW, "shadow_of": "a/b"}, "shadow_of = 'a/b'"),
    ],
)
def test_a_shadow_writes_to_topics_of_its_own(changes, text):
    with pytest.raises(ConfigurationError, match=text):
        Settings.of({"input.topics": [TOPIC], "shadow_of": LIVE, **changes})


def test_records_of_messages_are_compared_one_by_one(monkeypatch, capsys):
    made = Both(monkeypatch, given={"input__records": ".", "input__id_path": "id"}, engine__name="caea")
    packed(made.live)
    for one in (made.live, made.shadow):
        one.work(60, everything=True)
    monkeypatch.setattr("resonance.pipeline.shadow.summary.MOST_RECORDS", 5)
    found = compared(monkeypatch, capsys, "--contents")
    assert (found["records"], found["compared"]) == (589, 589)
    live = {tuple(one["source"].values()): one for one in payloads(made.live.recorded())}
    assert len(found["disagreeing"]) == 5
    for one in found["disagreeing"]:
        answer = live[one["topic"], one["partition"], one["offset"], one["index"]]
        assert (one["clusters"][0], one["value"]["id"]) == (answer["cluster"], answer["id"])


def test_a_shadow_that_takes_messages_apart_is_compared_with_a_deployment_that_does_not(monkeypatch, capsys):
    made = Both(monkeypatch, input__records=".")
    for one in (made.live, made.shadow):
        one.work(60, everything=True)
    found = compared(monkeypatch, capsys)
    assert (found["records"], found["compared"]) == (60, 60)
