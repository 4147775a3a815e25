"""Names of clusters and their lineage, and who shows the names."""

import json
import re
from random import Random

import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.topics import topics
from resonance.pipeline.topics.configuration import made_with
from resonance.pipeline.topics.kinds import NAMES, SMALL_SEGMENTS, Topic
from resonance.pipeline.watch.named import with_names
from resonance.schemas import ClusterNames

from tests.pipeline.commands import run as run_command
from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.page import outputs
from tests.schemas.test_names import HISTORY, TIME, A, B, C, D, cluster


def run(monkeypatch, broker, command, *arguments, name="shop"):
    options = ["--name", name, "--broker", broker.bootstrap, "--broker.answer_timeout", "2"]
    return run_command(monkeypatch, command, *arguments, *options)


def described(id_, **more):
    stream, version, _ = id_.rsplit("/", 2)
    own = {"stream": stream, "version": int(version), "level": 1, "since": TIME.format(0), "seq": 4}
    return orjson.dumps({**cluster(id_, latency_ms=80.0), **own, "time": TIME.format(4), **more})


@pytest.fixture
def broker():
    """A broker with the clusters of `HISTORY` in a deployment `shop`."""
    kinds = ("cluster-events", "clusters", "alerts", "drift-events", "dead-letters")
    with EmbeddedBroker([f"shop.{kind}" for kind in kinds]) as running:
        for event in HISTORY:
            cause = {"id": None, "source": {"topic": "orders", "partition": 0, "offset": event["seq"]}}
            running.append("shop.cluster-events", 0, orjson.dumps({**event, "cause": cause}))
        for id_ in (A, C, D):
            running.append("shop.clusters", 0, described(id_), id_.encode())
        running.append("shop.clusters", 0, described(B, ended="absorbed", successors=[A]), B.encode())
        alert = outputs.alert("opened", "p0", 4, "warning") | {"since": TIME.format(4), "time": TIME.format(4)}
        alert |= {"rule": "share", "key": "shop/share/p0/p0/1/0/1/0", "cluster": A}
        alert["text"] = f"the share of {A} in p0 has changed"
        running.append("shop.alerts", 0, orjson.dumps(alert), b"k")
        running.flush()
        yield running


def test_a_name_is_shown_by_all_who_show_the_cluster(monkeypatch, capsys, broker, printed):
    assert printed(run, broker, "inspect", A, "--as", "checkout").out == f"{A} is named checkout\n"
    lines = printed(run, broker, "watch", "--from", "earliest", "--until-end").out.splitlines()
    assert f"cluster {A} (checkout) emerged: 30 records" in lines[0]
    assert f"cluster {B} emerged" in lines[1]
    assert f"cluster {C} (from checkout) split from {A} (checkout)" in lines[2]
    assert f"the share of {A} (checkout) in p0 has changed" in "\n".join(lines)
    assert run(monkeypatch, broker, "watch", "--from", "earliest", "--until-end", "--json", "-k", "split") == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["names"] == {A: "checkout", C: "from checkout"}
    for each in ([], ["--each"]):
        assert run(monkeypatch, broker, "alerts", "--input.topics", "orders", *each) == 0
        assert f"the share of {A} (checkout) in p0 has changed" in capsys.readouterr().out
    said = json.loads(printed(run, broker, "alerts", "--input.topics", "orders", "--json").out)
    (incident,) = said["incidents"]
    assert incident["alerts"] == [alert["key"] for alert in said["open"]]
    unknown = printed(run, broker, "alerts", "--input.topics", "orders", "--stream", "p00", code=2)
    assert "--stream: no output names p00 (did you mean p0?); there are " in unknown.err
    assert [line.split() for line in printed(run, broker, "inspect", "--names").out.splitlines()][1] == [A, "checkout"]


def test_a_name_can_be_changed_and_removed(monkeypatch, capsys, broker, printed):
    for given in ("checkout", "refunds", ""):
        assert run(monkeypatch, broker, "inspect", A, "--as", given) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"{A} is named refunds", f"{A} has no name of its own any more"]
    assert json.loads(printed(run, broker, "inspect", "--names", "--json").out) == []
    assert run(monkeypatch, broker, "inspect", A, "--as", "") == 2
    assert f"cluster {A} has no name of its own; no cluster has one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["p0/1/9", "--as", "x"], f"there is no cluster p0/1/9 (did you mean {D} or "),
        (["p1/1/0", "--as", "x"], "no cluster p1/1/0 and no stream p1 in this deployment, it has 1 stream"),
        ([B, "--as", "x"], f"cluster {B} has ended, and it goes on as {A}: name that one"),
        ([A, "--as", " x"], "must be one line of 1 to 80 characters"),
        ([A, "--as", "x", "--records"], "--records and --as: choose one"),
        (["--as", "x"], "--records and --as are for one cluster"),
        ([A, "--at", "-1h", "--wide"], "CLUSTER goes with --records or --as; leave out --at and --wide"),
        ([A, "--as", "", "--stream", "p0"], "CLUSTER goes with --records or --as; leave out --stream"),
        (
            [A, "--records", "--stored", "--peers"],
            "CLUSTER goes with --records or --as; leave out --peers and --stored",
        ),
        ([A, "--names", "--picture", "x.png"], "CLUSTER goes with --records or --as; leave out --names and --picture"),
        (["--names", "--stream", "p0", "--json"], "--names goes alone; leave out --stream"),
        (["--names", "--at", "-1h", "--as", ""], "--names goes alone; leave out --at and --as"),
        (
            ["--peers", "--stream", "p0", "--stored"],
            "--peers goes with --at or --wide; leave out --stream and --stored",
        ),
        (["--peers", "--records"], "--peers goes with --at or --wide; leave out --records"),
    ],
)
def test_what_cannot_be_named_or_shown_is_said_in_a_sentence(broker, given, said, printed):
    assert said in printed(run, broker, "inspect", *given, code=2).err


def test_the_lineage_is_a_tree_with_sizes_and_times(monkeypatch, broker, printed):
    assert run(monkeypatch, broker, "inspect", B, "--as", "x") == 2
    printed(run, broker, "inspect", A, "--as", "checkout")
    assert printed(run, broker, "inspect", A).out.splitlines() == [
        f"{A} (checkout): 60 records at its last event, emerged 2026-01-05 08:00:00, present",
        "came from:",
        f"└─ absorbed {B}: 40 records, emerged 2026-01-05 08:00:01, absorbed 2026-01-05 08:00:04",
        "became:",
        f"└─ gave {C} (from checkout): 6 records at its last event, split off 2026-01-05 08:00:02, present",
        f"   └─ gave {D} (from checkout): 4 records at its last event, split off 2026-01-05 08:00:03, present",
    ]
    tree = json.loads(printed(run, broker, "inspect", D, "--json").out)
    (parent,) = tree["came_from"]
    (root,) = parent["came_from"]
    assert [(each["id"], each["tie"]) for each in (parent, root, *root["came_from"])] == [
        (C, "split from"),
        (A, "split from"),
        (B, "absorbed"),
    ]
    assert (root["size"], root["began"], root["name"]) == (60, TIME.format(0), "checkout")
    assert (tree["became"], tree["ended"]) == ([], None)
    assert "there is no cluster p0/1/77" in printed(run, broker, "inspect", "p0/1/77", code=2).err
    assert "no stream p7 in this deployment" in printed(run, broker, "inspect", "p7/1/0", code=2).err


def test_watch_from_a_time_says_what_watch_from_the_beginning_said(monkeypatch, capsys, broker, printed):
    every = printed(run, broker, "watch", "--from", "earliest", "--until-end", "-k", "events").out.splitlines()
    for begin in range(5):
        assert run(monkeypatch, broker, "watch", "--from", str(begin), "--until-end", "-k", "events") == 0
        assert capsys.readouterr().out.splitlines() == every[begin:]


def test_ids_that_contain_another_id_are_not_named():
    names = ClusterNames()
    names.apply(A, {"cluster": A, "name": "x", "time": TIME.format(0)})
    ids = [A, "p0/1/01", "p0/1/0.2", "tp0/1/0"]
    assert with_names(f"p0/1/01, p0/1/0.2 and tp0/1/0 but {A}.", ids, names).endswith(f"but {A} (x).")


SETTINGS = {"name": "shop", "input.topics": ["in"]}


def test_the_topic_of_the_names_is_made_compacted_with_one_partition():
    cluster_ = FakeCluster({"in": (3, {})})
    topics.ready(Settings.of(SETTINGS), cluster_, NAMES)
    assert cluster_.topics["shop.names"] == (1, made_with(Topic(NAMES, "shop.names"), {}))
    assert cluster_.topics["shop.names"][1].items() > SMALL_SEGMENTS.items()
    topics.ready(Settings.of(SETTINGS), cluster_, NAMES)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"topics.create": False}, BrokerError, r"topics\.create is off: kafka-topics\.sh .* --partitions 1 "),
        ({"policy": "delete"}, BrokerError, r"has cleanup\.policy=delete and would lose names; it must be compact"),
        ({"denied": True}, DeniedError, r"gives User:shop no right to Write topic shop\.names"),
    ],
)
def test_a_topic_of_the_names_that_cannot_be_used_is_an_error_with_the_command_that_helps(change, error, text):
    cluster_ = FakeCluster({"in": (3, {})})
    if "topics.create" not in change:
        cluster_.topics["shop.names"] = 1, {"cleanup.policy": change.pop("policy", "compact")}
    if change.pop("denied", False):
        cluster_.operations = {"shop.names": frozenset({"Read"})}
    with pytest.raises(error, match=text):
        topics.ready(Settings.of({**SETTINGS, **change}), cluster_, NAMES)


@pytest.mark.parametrize("seed", range(20))
def test_an_id_is_found_only_where_it_is_whole(seed):
    """The search by hand finds what a pattern for each id would."""
    random = Random(seed)
    names = ClusterNames()
    for each in ("p/1/1", "p/1/1.2", "p/1/11", "é p/1/1"):
        names.apply(each, {"cluster": each, "name": f"<{each}>", "time": "2026-01-05T08:00:00.000Z"})
    for _ in range(300):
        text = "".join(random.choices([*names.given, "p", "1", ".", "/", " ", "é", "-", "%", ":", "_", ",", "a"], k=6))
        for each, name in names.given.items():
            whole = rf"(?<![\w/.:%-]){re.escape(each)}(?![\w/:%-]|\.\w)"
            expected = re.sub(whole, lambda found, name=name: f"{found[0]} ({name})", text, count=1)
            assert with_names(text, [each], names) == expected
