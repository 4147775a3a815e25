"""Outputs are followed in sentences, each once, filtered by stream and kind."""

import json
import sys
import threading
import time
from dataclasses import replace

import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.records import Record
from resonance.pipeline.watch.outputs import DeploymentOutputs
from resonance.pipeline.watch.watch import Filter, Watch, WatchedOutput, as_line
from resonance.schemas import ClusterNames, Output, dead_letter_headers

from tests.pipeline.commands import run as run_command
from tests.pipeline.page import outputs

TIME = "2026-01-05T08:00:20.750Z"


@pytest.fixture(scope="module")
def broker():
    """A broker on which a deployment `shop` has emitted something, some of it twice."""
    topics = [f"shop.{kind}" for kind in ("assignments", "cluster-events", "dead-letters", "clusters")]
    with EmbeddedBroker([*topics, "quiet.cluster-events"]) as running:
        for number in (0, 1, 1, 2):
            ce_id = [("ce_id", b"orders-0-%d" % number)]
            running.append("shop.assignments", 0, orjson.dumps(assignment(number)), b"k", ce_id)
        # The same record again, after a reset and under another version: no repeat.
        running.append("shop.assignments", 0, orjson.dumps(assignment(2, version=2)), b"k", ce_id)
        running.append("shop.assignments", 1, orjson.dumps(assignment(0, stream="p1")), b"k")
        for _ in range(2):
            running.append("shop.cluster-events", 0, orjson.dumps(absorbed()))
        running.append("shop.cluster-events", 0, orjson.dumps(absorbed() | {"kind": "vanished", "seq": 5}))
        text = {"topic": "orders", "partition": 0, "offset": 3, "stage": "decode", "class": "not_json"}
        running.append(
            "shop.dead-letters", 0, b"{", headers=dead_letter_headers("shop", text | {"message": "not JSON"})
        )
        running.append("shop.clusters", 0, orjson.dumps(described("p0", cluster("p0/1/3"))), b"p0/1/3")
        running.append("shop.clusters", 0, None, b"p0/1/7")
        running.flush()
        yield running


def assignment(offset, *, stream="p0", version=1, **more):
    name = f"{stream}/{version}/7"
    own = {"id": f"r{offset}", "version": version, "cluster": name, "clusters": [name], "score": 0.91159, "path": [42]}
    return outputs.answer(stream, 7, offset) | own | {"time": TIME, **more}


def cluster(name, size=1204, latency=80.0):
    return {"id": name, "size": size, "centre": {"latency_ms": latency}, "spread": {"latency_ms": 5.0}, "nodes": 3}


def described(stream, snapshot):
    return {"stream": stream, "version": 1, "level": 1, "seq": 3, "since": TIME, "time": TIME} | snapshot


def absorbed():
    before, after = [cluster("p0/1/7"), cluster("p0/1/3")], [cluster("p0/1/3", 3000, 100.0)]
    event = outputs.event("absorbed", "p0/1/7", 4, 9, other="p0/1/3")
    return event | {"before": before, "after": after, "time": TIME}


def run(monkeypatch, broker, *arguments, name="shop"):
    options = ["--name", name, "--broker", broker, "--input.topics", "orders", "--broker.answer_timeout", "2"]
    return run_command(monkeypatch, "watch", *arguments, *options)


ALL = ["--from", "earliest", "--until-end"]
WITH_ANSWERS = ["-k", "assignments", "-k", "events", "-k", "dead-letters"]


def test_everything_is_emitted_once_and_in_sentences(broker, printed):
    lines = sorted(printed(run, broker.bootstrap, *ALL, *WITH_ANSWERS).out.splitlines(), key=lambda line: line[20:])
    assert lines == [
        "2026-01-05 08:00:20  assignments   orders[0]@0 r0 is in p0/1/7 (0.912)",
        "2026-01-05 08:00:20  assignments   orders[0]@0 r0 is in p1/1/7 (0.912)",
        "2026-01-05 08:00:20  assignments   orders[0]@1 r1 is in p0/1/7 (0.912)",
        "2026-01-05 08:00:20  assignments   orders[0]@2 r2 is in p0/1/7 (0.912)",
        "2026-01-05 08:00:20  assignments   orders[0]@2 r2 is in p0/2/7 (0.912)",
        f"{'':19}  dead-letters  orders[0]@3 was not used (decode, not_json): not JSON",
        "2026-01-05 08:00:20  events        cluster p0/1/7 vanished after 1,204 records: latency_ms 80",
        "2026-01-05 08:00:20  events        cluster p0/1/7 was absorbed by p0/1/3 after 1,204 records: "
        "latency_ms 80 -> 100; 3,000 records together",
    ]


def test_lines_fit_a_terminal(monkeypatch, capsys, broker):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, broker.bootstrap, *ALL, "--kind", "absorbed") == 0
    kind = "\x1b[32mevents\x1b[0m"
    assert capsys.readouterr().out.splitlines() == [
        f"2026-01-05 08:00:20  {kind}        cluster p0/1/7 was absorbed by p0/1/3 after",
        f"{'':21}1,204 records: latency_ms 80 -> 100; 3,000 records together",
    ]


def test_a_machine_gets_an_object_a_line(monkeypatch, capsys, broker):
    assert run(monkeypatch, broker.bootstrap, *ALL, "--json", "-k", "events", "-k", "dead-letters") == 0
    found = sorted(map(json.loads, capsys.readouterr().out.splitlines()), key=lambda line: line["kind"])
    assert [line["kind"] for line in found] == ["dead-letters", "events", "events"]
    assert found[0]["value"]["source"] == {"topic": "orders", "partition": 0, "offset": 3}
    assert (found[0]["value"]["value"], found[1]["value"]) == ("{", absorbed())
    assert (found[1]["topic"], found[1]["partition"], found[1]["offset"]) == ("shop.cluster-events", 0, 0)


def test_what_senders_write_is_shown_and_not_obeyed(monkeypatch, printed):
    hostile = "\x1b]0;title\x07\x1b]52;c;QQ==\x07\n2026-01-05 08:00:20  alerts  critical forged\u202e[bold]"
    with EmbeddedBroker(["odd.assignments", "odd.clusters", "odd.dead-letters"]) as running:
        answer = assignment(0, stream=hostile) | {"id": hostile}
        running.append("odd.assignments", 0, orjson.dumps(answer), b"k")
        long = orjson.dumps(assignment(1, later=1)).replace(b'"r1"', b"18446744073709551617")
        running.append("odd.assignments", 0, long)
        running.append("odd.assignments", 0, b'{"later": 1}')
        running.append("odd.clusters", 0, None, hostile.encode())
        text = {"topic": hostile, "partition": 0, "offset": 3, "stage": "decode", "class": hostile, "message": hostile}
        running.append("odd.dead-letters", 0, hostile.encode(), headers=dead_letter_headers("odd", text))
        running.flush()
        kinds = ["-k", "assignments", "-k", "clusters", "-k", "dead-letters"]
        assert run(monkeypatch, running.bootstrap, *ALL, *kinds, name="odd") == 0
        found = printed(run, running.bootstrap, *ALL, "--stream", "x", "-k", "assignments", name="odd", code=2)
        objects = printed(run, running.bootstrap, *ALL, *kinds, "--json", name="odd").out
    lines = found.out.splitlines()
    assert len(lines) == 4
    assert sum("orders[0]@1 18446744073709551617 is in p0/1/7" in line for line in lines) == 1
    shown = r"\x1b]0;title\x07\x1b]52;c;QQ==\x07\n2026-01-05 08:00:20  alerts  critical forged\u202e[bold]"
    assert sum(shown in line for line in lines) == 3
    assert all(line.isprintable() for line in (*lines, *found.err.splitlines(), *objects.splitlines()))
    assert hostile in [json.loads(line)["value"].get("id") for line in objects.splitlines() if '"assignments"' in line]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([*WITH_ANSWERS, "--stream", "p1"], 1),
        ([*WITH_ANSWERS, "--stream", "p1", "--stream", "p0"], 7),
        *((["--stream", "p0"], 2), (["--kind", "vanished"], 1)),
        *((["--kind", "vanished", "--kind", "events"], 2), (["--kind", "dead-letters"], 1), (["--limit", "3"], 3)),
    ],
)
def test_outputs_can_be_chosen(broker, options, count, printed):
    assert len(printed(run, broker.bootstrap, *ALL, *options).out.splitlines()) == count


def test_clusters_and_their_ends_are_reported(monkeypatch, capsys, broker):
    assert run(monkeypatch, broker.bootstrap, *ALL, "--kind", "clusters", "--stream", "p0") == 0
    assert [line[35:] for line in capsys.readouterr().out.splitlines()] == [
        "p0/1/3 has 1,204 records: latency_ms 80",
        "p0/1/7 is forgotten",
    ]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([*ALL, "--stream", "p00"], 2, "no output names p00 (did you mean p0?); there are p0"),
        ([*ALL, "--kind", "event"], 2, "did you mean events?"),
        ([*ALL, "--kind", "drift"], 69, "topic shop.drift-events does not exist"),
        (["--from", "noon"], 2, "--from noon: must be earliest, latest, a time"),
    ],
)
def test_what_is_not_there_is_reported_with_the_nearest(broker, options, code, said, printed):
    assert said in printed(run, broker.bootstrap, *options, code=code).err


def test_a_missing_deployment_is_reported(monkeypatch, capsys, broker):
    assert run(monkeypatch, broker.bootstrap, "--until-end", name="shopp") == 69
    assert "topic shopp.cluster-events does not exist" in (said := capsys.readouterr().err)
    assert "did you mean shop.cluster-events?" in said


def test_a_deployment_that_does_not_exist_yet_is_waited_for(monkeypatch, broker, printed):
    own, sleep = threading.current_thread(), time.sleep

    def created(seconds):
        # Threads of other tests may still wait for something.
        if threading.current_thread() is not own:
            return sleep(seconds)
        broker.create(["new.cluster-events"])
        broker.append("new.cluster-events", 0, orjson.dumps(absorbed()))
        return broker.flush()

    monkeypatch.setattr(time, "sleep", created)
    shown = printed(run, broker.bootstrap, "--limit", "1", name="new")
    assert "absorbed by" in shown.out
    assert "there is no topic new.cluster-events yet" in shown.err
    assert "waiting for a worker" in shown.err


def test_a_new_cluster_is_described_by_what_sets_it_apart_from_those_that_are_there(monkeypatch, broker, printed):
    def wide(name, latency, size):
        return cluster(name) | {"centre": {"a": 1.0, "latency_ms": latency, "b": 2.0, "c": 3.0, "size": size}}

    events = [
        {**absorbed(), "stream": "s0", "seq": seq, "kind": "emerged", "cluster": name, "before": [], "after": [new]}
        for seq, name, new in ((4, "s0/1/4", wide("s0/1/4", 80.0, 70.0)), (5, "s0/1/5", wide("s0/1/5", 900.0, 70.0)))
    ]
    broker.create(["apart.cluster-events", "apart.clusters"])
    broker.append("apart.clusters", 0, orjson.dumps(described("s0", wide("s0/1/3", 80.0, 7.0))), b"s0/1/3")
    broker.append("apart.cluster-events", 0, orjson.dumps(absorbed()))
    broker.flush()

    def appended(*given, original=DeploymentOutputs.poll):
        while events:
            broker.append("apart.cluster-events", 0, orjson.dumps(events.pop(0)))
        broker.flush()
        return original(*given)

    monkeypatch.setattr(DeploymentOutputs, "poll", appended)
    first, second = printed(run, broker.bootstrap, "--limit", "2", name="apart").out.splitlines()
    assert "s0/1/4 emerged: size 70, " in first
    assert "s0/1/5 emerged: latency_ms 900, " in second


def test_a_value_that_is_the_same_in_its_digits_has_not_changed():
    event = {**absorbed(), "before": [cluster("p0/1/7"), cluster("p0/1/3")], "after": [cluster("p0/1/3", 3000, 80.01)]}
    assert line("events", event) == "cluster p0/1/7 was absorbed by p0/1/3 after 1,204 records: 3,000 records together"


def test_topics_without_anything_are_reported(monkeypatch, capsys, broker):
    assert run(monkeypatch, broker.bootstrap, *ALL, name="quiet") == 0
    assert capsys.readouterr() == ("", "nothing on quiet.cluster-events from earliest to the end\n")


def test_who_waits_is_reported_so_once_and_sees_what_comes(broker):
    broker.create(["later.assignments"])
    said = []
    with reading(broker, {("later.assignments", 2): 0}, "later") as reader:
        batches = Watch(reader, Filter(), said.append, "; look back").batches({}, follow=True)

        def poll(timeout, poll=reader.poll):
            found = poll(0.02)
            if not found and len(said) == 1:
                broker.append("later.assignments", 2, orjson.dumps(assignment(5)))
                broker.append("later.assignments", 2, b"not ours")
                broker.flush()
            return found

        reader.poll = poll
        (found,) = next(batches)
    assert found.payload["source"]["offset"] == 5
    assert said[0] == "nothing yet; waiting for outputs on later.assignments (Ctrl-C ends it); look back"


def test_a_name_that_is_given_meanwhile_counts_though_names_have_no_end():
    class Reader:
        deployment = "shop"
        at_end = False

        def has_reached(self, _):
            return self.at_end

        def poll(self, _):
            self.at_end = True
            given = {"cluster": "p0/1/7", "name": "slow ones", "stream": "p0", "version": 1, "time": TIME}
            name = Output("names", given, "shop.names", 0, 3, b"p0/1/7", [])
            return [
                name,
                *(Output("assignments", assignment(at), "shop.assignments", 0, at, b"k", []) for at in (4, 5)),
            ]

    names = ClusterNames()
    batches = Watch(Reader(), Filter(), names=names).batches({("shop.assignments", 0): 5})
    assert [output.record.offset for batch in batches for output in batch] == [4]
    assert names.given


@pytest.mark.parametrize("place", ["log_reader.LogReader.__enter__", "admin.ClusterAdmin.partition_counts"])
def test_ctrl_c_is_how_it_ends_while_it_connects_too(monkeypatch, broker, place, printed):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"resonance.pipeline.kafka.{place}", stopped)
    assert printed(run, broker.bootstrap) == ("", "")


def test_dead_letters_of_different_records_are_no_repeats_though_their_sender_gave_them_one_id(broker):
    topic = "shop.dead-letters"
    sent = [("ce_id", b"1")]
    text = {"topic": "orders", "partition": 0, "stage": "decode", "class": "not_json", "message": "not JSON"}
    begin = broker.append(topic, 1, b"first") or 0
    for offset in (7, 7, 8):
        broker.append(topic, 1, b"{", headers=sent + dead_letter_headers("shop", text | {"offset": str(offset)}))
    broker.flush()
    with reading(broker, {(topic, 1): begin}) as reader:
        dead_letters = _outputs(reader, 2)
    assert [dict(each.headers)["shop.error.offset"] for each in dead_letters] == [b"7", b"8"]


def test_an_output_that_comes_again_in_another_envelope_is_a_repeat(broker):
    trace = ("traceparent", b"0")
    for headers in ([("ce_id", b"orders-0-9"), trace], [trace], []):
        broker.append("shop.assignments", 2, orjson.dumps(assignment(9)), headers=headers)
    broker.flush()
    with reading(broker, {("shop.assignments", 2): 0}) as reader:
        assert [len(output.headers) for output in _outputs(reader, 2)] == [2, 0]


def test_a_compacted_topic_may_say_again_what_it_said_before(broker):
    topic = "shop.clusters"
    there = described("p1", cluster("p1/1/0"))
    for value in (there, None, there):
        broker.append(topic, 1, None if value is None else orjson.dumps(value), b"p1/1/0")
    broker.flush()
    with reading(broker, {(topic, 1): 0}) as reader:
        assert [output.value for output in _outputs(reader, 3)] == [there, None, there]


def reading(broker, starts, name="shop"):
    settings = {"name": name, "broker.bootstrap": broker.bootstrap, "input.topics": ["orders"]}
    return DeploymentOutputs(Settings.of(settings), starts)


def _outputs(reader, count):
    found = []
    for _ in range(100):
        found += reader.poll(0.2)
        if len(found) >= count:
            break
    return found


def test_an_event_of_a_stranger_is_of_no_kind():
    stranger = WatchedOutput("events", Record("t", 0, 0, 0, None, b'{"a": 1}'), {"a": 1})
    assert not Filter.of(["emerged"], []).wants(stranger)


def line(kind, payload):
    return as_line(WatchedOutput(kind, Record("t", 0, 0, 0, None, None), payload))


def test_answers_of_every_kind_are_sentences():
    none = {"cluster": None, "clusters": [], "score": None, "id": None}
    assert line("assignments", assignment(1, status="warming_up")) == "orders[0]@1 r1 is kept for the warm-up of p0"
    assert line("assignments", assignment(1, novel=True, **none)) == (
        "orders[0]@1 is in no cluster of p0 yet, like nothing known"
    )
    deep = assignment(1, clusters=["p0/1/7", "p0/1/4.2"])
    assert line("assignments", deep) == "orders[0]@1 r1 is in p0/1/7 > p0/1/4.2 (0.912)"
    labels = assignment(1, labels={"quiet": 0.7, "angry": 0.5, "sad": 0.51})
    assert line("assignments", labels) == "orders[0]@1 r1 is in p0/1/7 (0.912), labelled quiet 0.7, sad 0.51"


def test_drift_and_ended_clusters_are_sentences():
    drift = {"kind": "warning", "stream": "p0", "detector": "adwin", "criterion": "mean", "value": 2.5, "threshold": 1}
    assert line("drift", drift | {"feature": "x"}) == "p0: warning of x, seen by adwin: mean 2.5 passed 1"
    groups = drift | {"kind": "regrouped", "detector": "mlca_c", "value": 3.0, "threshold": 2.0}
    assert line("drift", groups) == "p0: mlca_c sees 3 groups of features, 2 before"
    range_ = drift | {"kind": "rescaled", "feature": "x", "range": [0.0, 98.5], "range_before": [0.01, 0.99]}
    assert line("drift", range_) == "p0: the range of x is 0 to 98.5 from here on, 0.01 to 0.99 before"
    ended = cluster("p0/1/7") | {"ended": "absorbed", "successors": ["p0/1/3"]}
    assert line("clusters", ended) == "p0/1/7 ended (absorbed) with 1,204 records; it goes on as p0/1/3"


def test_what_a_later_release_says_otherwise_is_shown_as_it_stands():
    assert line("events", {"kind": "renamed"}) == '{"kind":"renamed"}'


def test_the_name_of_a_topic_is_a_kind_too():
    assert Filter.of(["cluster-events", "drift-events"], ()).kinds == ("events", "drift")


def test_other_ranges_do_not_bury_drift():
    alert = WatchedOutput("alerts", None, {"rule": "drift_open", "kind": "opened"})
    drift, range_ = (WatchedOutput("drift", None, {"kind": kind}) for kind in ("drift", "rescaled"))

    def seen(*kinds):
        wanted = replace(Filter.of(kinds, ()), drift_once=True)
        return [each for each in (drift, range_, alert) if each.kind in wanted.kinds and wanted.wants(each)]

    assert seen() == seen("drift") == seen("drift-events") == [drift]
    assert seen("rescaled") == [range_]
    assert seen("drift", "rescaled") == [drift, range_]
    # The alert of a drift is only left out beside it.
    assert seen("rescaled", "alerts") == [range_, alert]


def test_a_drift_is_one_line_unless_each_alert_is_wanted():
    payload = {"rule": "drift_open", "kind": "opened", "evidence": {"units": 1.0}, "stream": "p0"}
    opened = WatchedOutput("alerts", None, payload)
    ended = WatchedOutput("alerts", None, payload | {"kind": "cleared", "evidence": {"ended": 1.0}})
    assert Filter().wants(opened)
    once = Filter(drift_once=True)
    assert not once.wants(opened)
    assert once.wants(ended)
    assert Filter(("alerts",), drift_once=True).wants(opened)
