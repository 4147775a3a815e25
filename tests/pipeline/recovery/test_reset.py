"""``resonance reset``: what it says it would do, and that it does just that; without a broker."""

from functools import partial

import orjson
import pytest
from resonance.pipeline.checkpoint.archive_reader import Archives
from resonance.pipeline.checkpoint.changelog_records import manifest_key, partition_key
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import Message
from resonance.schemas import ClusterTable

from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import STAMP, TOPIC, payloads

AT = (TOPIC, 0)


@pytest.fixture
def reset(command):
    return partial(command, "reset", "--topics", TOPIC)


@pytest.fixture
def deployment(monkeypatch):
    return MemoryDeployment(monkeypatch)


def test_without_yes_it_is_only_shown(deployment, reset, capsys):
    deployment.work(400, everything=True)
    before = {at: list(log) for at, log in deployment.logs.items()}
    assert reset() == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == (
        "group resonance; topics: resonance.snapshots (all are forgotten, and the archives with them), "
        "resonance.clusters (emptied by tombstones)"
    )
    assert "stop them first" not in shown.err
    assert shown.out.splitlines()[3].split() == ["features[0]", "400", "0"]
    assert "p0:a    version 1 at offset 400  version 1 at offset 0" in shown.out
    assert "nothing was changed; this does it: resonance reset --topics features --yes" in shown.out
    assert (deployment.logs, deployment.offsets, deployment.waited) == (before, {AT: 400}, [])


@pytest.mark.parametrize(
    ("members", "text"),
    [(["w on a", "w on b"], "2 workers run in group"), (["w on a"], "1 worker runs in group"), ([], "workers join in")],
)
def test_who_still_runs_is_reported_before_anything_is_done(deployment, reset, capsys, members, text):
    deployment.work(100)
    deployment.members = members
    assert reset() == 0
    shown = capsys.readouterr().err
    assert text in shown
    waiting = deployment.source.settings.broker.session_timeout + 5
    assert f"stop them first; --yes waits {waiting:.0f} s for that and then refuses" in shown


def test_a_reset_does_what_the_worker_does(deployment, reset, capsys):
    first = deployment.work(400, everything=True, archive=True)
    assert reset("--yes", "--json") == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["done"], found["group"], found["command"]) == (True, "resonance", None)
    assert found["topics"] == ["resonance.snapshots", "resonance.clusters"]
    assert found["partitions"][0] | {"streams": 0} == {
        **{"topic": TOPIC, "partition": 0, "from": 400, "to": 0, "streams": 0, "alerts": []}
    }
    assert found["partitions"][0]["streams"][0] == {
        "stream": "p0:a",
        "before": {"version": 1, "next": 400},
        "after": {"version": 1, "next": 0},
    }
    assert deployment.waited == [0]
    assert Archives.of(deployment, deployment.source, (TOPIC, 0))[0].newest(400) is None
    assert deployment.work(400).assignments == first.assignments


def test_what_was_done_is_reported_as_done(deployment, reset, capsys):
    deployment.work(100)
    assert reset("--yes") == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[3].split() == ["features[0]", "100", "0"]
    assert said.out.endswith("\nthis was done; workers that are started now go on from there\n")


def test_a_reset_leaves_no_cluster_of_before_behind(deployment, reset):
    place = deployment.given.topic("clusters"), 0

    def present():
        return ClusterTable.from_clusters((record.key or b"", record.value) for record in deployment.logs[place])

    first = deployment.work(400)
    before = present()
    assert before.clusters()
    assert reset("--yes") == 0
    table = {record.key: record.value for record in deployment.logs[place]}
    assert set(table.values()) == {None}
    deployment.work(400)
    assert present().clusters() == before.clusters()
    assert len(deployment.logs[place]) == 2 * len(first.clusters) + len(table)


def test_one_stream_begins_its_next_version(deployment, reset, capsys):
    deployment.work(300)
    others = deployment.task(*AT)
    others.process([record for record in deployment.logs[AT] if record.offset < 300])
    present = {cluster["id"] for cluster in others.models.clusters("p0:a")}
    assert reset("--stream", "p0:a", "--yes") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[3].split() == ["features[0]", "300", "300"]
    assert "p0:a    version 1, in no snapshot yet  version 2 at offset 300" in out
    after = deployment.work(600)
    started = [event for event in payloads(after.cluster_events) if event["kind"] == "version_started"]
    assert [(event["stream"], event["version"]) for event in started] == [("p0:a", 2)]
    assert {cluster["id"] for cluster in started[0]["before"]} == present
    expected = others.process([record for record in deployment.logs[AT] if record.offset >= 300])

    def of_b(outputs):
        return [answer for answer in payloads(outputs.assignments) if answer["stream"] == "p0:b"]

    assert of_b(after) == of_b(expected)
    key = orjson.loads(deployment.logs[deployment.source.archive, 0][-1].key or b"")
    assert key[:3] == ["archive", TOPIC, 300]


@pytest.mark.parametrize("place", ["210", "2023-11-14T22:16:55Z"])
def test_everything_goes_back_to_an_archive(deployment, reset, capsys, place):
    assert STAMP + 1_000 * 215 == 1_700_000_215_000  # 22:16:55
    first = deployment.work(100, archive=True)
    for until, archived in ((200, True), (300, True), (400, False)):
        rest = deployment.work(until, everything=True, archive=archived)
        if until > 200:
            first.assignments += rest.assignments
    assert reset("--to-archive", place) == 0
    assert capsys.readouterr().out.splitlines()[3].split() == ["features[0]", "400", "200"]
    assert reset("--to-archive", place, "--yes") == 0
    assert deployment.offsets == {AT: 200}
    assert deployment.work(400).assignments == first.assignments[100:]


def test_going_back_to_other_settings_says_how(deployment, monkeypatch, reset, capsys):
    deployment.work(100, archive=True)
    deployment.work(300, everything=True)
    changed = MemoryDeployment(monkeypatch, engine__memory=300)
    changed.logs, changed.offsets = deployment.logs, deployment.offsets
    assert reset("--to-archive", "200") == 65
    text = capsys.readouterr().err
    assert "learned with other settings: engine.memory was 100, is 300; the archive at offset 100 (2023-" in text
    assert "set settings and release back, or choose a time" in text
    assert "resonance worker" not in text


def test_after_going_back_a_reset_still_emits_the_same(deployment, reset):
    first = deployment.work(100, archive=True)
    deployment.work(300, everything=True)
    reset("--to-archive", "150", "--yes")
    reset("--yes")
    assert deployment.work(100).assignments == first.assignments


def test_what_stands_before_the_place_stays(deployment, reset, capsys):
    deployment.work(100, archive=True)
    assert reset("--to-archive", "100", "--yes") == 0
    assert "features[0] does not stand behind that and stays as it is" in capsys.readouterr().err
    assert deployment.written == []


def test_behind_a_version_the_archived_models_go_on_as_the_next_one(deployment, reset, capsys):
    first = deployment.work(100, archive=True)
    first.assignments += deployment.work(300, everything=True).assignments
    reset("--stream", "p0:a", "--yes")
    deployment.work(400, everything=True)
    assert reset("--to-archive", "200", "--yes") == 0
    assert "resonance.archive (archived anew)" in capsys.readouterr().out
    assert deployment.offsets == {AT: 100}

    def answers(assignments):
        for one in map(orjson.loads, (message.value for message in assignments)):
            yield one["source"], one["score"], (one["cluster"] or "//").rsplit("/", 1)[1]

    again = deployment.work(300, everything=True)
    assert list(answers(again.assignments)) == list(answers(first.assignments[100:]))
    assert {orjson.loads(message.value)["version"] for message in again.assignments} == {3}
    assert deployment.verify(begin="100").identical


@pytest.mark.parametrize("key", [manifest_key("p0:a"), partition_key(TOPIC)], ids=["manifest", "record"])
def test_nobody_goes_back_where_it_is_unknown_which_versions_are_in_use(deployment, reset, capsys, key):
    deployment.work(100, archive=True)
    deployment.work(300, everything=True)
    deployment.append((deployment.source.snapshots, 0), Message(key, b"?", []))
    before = {at: list(log) for at, log in deployment.logs.items()}
    assert reset("--to-archive", "200", "--yes") == 65
    text = capsys.readouterr().err
    assert f"features[0]: the record of key {key.decode()} on topic resonance.snapshots cannot be read" in text
    assert "begin anew with `resonance reset`" in text
    assert deployment.logs == before


def test_an_archive_needs_the_log_behind_it(deployment, reset, capsys):
    deployment.work(100, archive=True)
    deployment.work(300, everything=True)
    assert reset("--to-archive", "99") == 65
    assert "topic resonance.archive has no archive of it at or before offset 99" in capsys.readouterr().err
    deployment.firsts[AT] = 101
    assert reset("--to-archive", "200") == 65
    assert "features[0]: the log begins at offset 101, but the models must be rebuilt from offset 100" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--stream", "p0:A"), "--stream p0:A: deployment resonance has no such stream, it has 2 (did you mean"),
        (("--to-archive", "yesterday"), "--to-archive yesterday: must be earliest, latest, a time"),
        (("--to-archive", "3", "--stream", "p0:a"), "--stream and --to-archive: an archive has all streams"),
    ],
)
def test_what_cannot_be_done_is_one_line(deployment, reset, capsys, options, text):
    deployment.work(300, everything=True)
    assert reset(*options) == 2
    assert text in capsys.readouterr().err
    assert deployment.written == []


def test_a_password_is_not_repeated(deployment, reset, capsys):
    reset("--broker.librdkafka.sasl.password", "hush")
    shown = capsys.readouterr()
    assert "this does it: the same command with --yes" in shown.out
    assert "hush" not in shown.out + shown.err


def behind(deployment):
    """A worker that delivers at least once is killed before the offsets of its last snapshot count."""
    deployment.work(300, archive=True)
    (part,) = restore_partitions(deployment.source, [AT], deployment.task).values()
    part.task.process([record for record in deployment.logs[AT] if 300 <= record.offset < 400])
    for message in part.writer.messages(part.task, 400, 300, everything=True):
        deployment.append((deployment.source.snapshots, 0), message)


@pytest.mark.parametrize("options", [("--stream", "p0:a"), ("--to-archive", "300"), ()], ids=str)
def test_what_was_stopped_before_the_offsets_is_done_by_the_same_command(deployment, reset, options):
    behind(deployment)
    if "--to-archive" in options:
        deployment.work(500)
    deployment.stopped = True
    assert reset(*options, "--yes") != 0
    # Whoever starts now does not take the offset for one that was set back.
    restore_partitions(deployment.source, [AT], deployment.task)
    deployment.stopped = False
    assert reset(*options, "--yes") == 0
    start = 400 if "--stream" in options else 300 if options else 0
    assert deployment.offsets == {AT: start}
    found = payloads(deployment.work(600).assignments)
    assert (found[0]["source"]["offset"], found[-1]["source"]["offset"]) == (start, 599)


def test_an_archive_is_gone_back_to_where_a_snapshot_is_damaged(deployment, reset):
    deployment.work(200, everything=True, archive=True)
    expected = deployment.work(400, everything=True)
    log = deployment.logs[deployment.source.snapshots, 0]
    log[:] = [record for record in log if not (record.key or b"").startswith(b'["chunk","p0:b"')]
    with pytest.raises(MismatchError, match=r"the snapshot of stream p0:b at offset .* cannot be used.*--to-archive"):
        deployment.work(600)
    assert reset("--to-archive", "300", "--yes") == 0
    assert deployment.work(400).assignments == expected.assignments
