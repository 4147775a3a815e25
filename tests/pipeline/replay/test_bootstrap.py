"""Recorded data learned silently: what follows is what a run over everything says from there on."""

import pickle

import orjson
import pytest
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.files import several_files
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.records import Message, Record
from resonance.pipeline.recovery.reset import reset
from resonance.pipeline.replay import file_partitions
from resonance.pipeline.replay.bootstrapping import FromFile, bootstrap
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment, rekeyed
from tests.pipeline.repartition.two_hops import ROUTES, inputs
from tests.pipeline.streams import STAMP, TOPIC, points, value_of

HALF = 300


def outputs_from(outputs, first=0):
    """Assignments and events that go back to records from an offset on."""
    kept = []
    for message in (*outputs.assignments, *outputs.cluster_events):
        content = orjson.loads(message.value)
        if content.get("cause", content)["source"]["offset"] >= first:
            kept.append(message)
    return kept


@pytest.fixture
def deployment(monkeypatch):
    return MemoryDeployment(monkeypatch)


def test_first_half_learned_and_second_live_is_one_run_over_both(deployment, monkeypatch):
    (part,) = bootstrap(deployment.given, [TOPIC], Span.parse(end=str(HALF)))
    assert (part.records, part.offset, part.streams, part.archived) == (HALF, HALF, 2, True)
    live = deployment.work(600)
    whole = MemoryDeployment(monkeypatch).work(600)
    events = [message for message in outputs_from(live) if b'"version_started"' not in message.value]
    assert events == outputs_from(whole, HALF)


def test_what_follows_can_be_verified_from_the_beginning_and_from_the_archive(deployment):
    bootstrap(deployment.given, [TOPIC], Span.parse(end=str(HALF)))
    deployment.work(600)
    (part,) = deployment.verify().parts
    assert (part.begin, part.assignments, part.difference) == (HALF, 300, None)
    (part,) = deployment.verify(begin="400").parts
    assert part.start.startswith(f"from the archive at offset {HALF}")
    assert part.difference is None


@pytest.fixture
def history(tmp_path):
    """The records before those of the topic."""
    path = tmp_path / "history.jsonl"
    rows = enumerate(points(HALF, seed=7).tolist())
    path.write_bytes(b"\n".join(value_of(row, key="ab"[i % 2], id=f"h{i}") for i, row in rows))
    return path


def test_a_file_is_learned_as_if_it_stood_before_the_log(deployment, history, monkeypatch):
    (part,) = bootstrap(deployment.given, FromFile(history, Columns(key=("key",))), Span())
    assert (part.records, part.offset, part.archived) == (HALF, 0, True)
    live = deployment.work(600)
    both = MemoryDeployment(monkeypatch, records=0)
    for i, record in enumerate([*history.read_bytes().splitlines(), *deployment.logs[TOPIC, 0]]):
        if isinstance(record, bytes):
            both.append((TOPIC, 0), Message(b"ab"[i % 2 :][:1], record, []))
        else:
            both.append((TOPIC, 0), Message(record.key, record.value, []), timestamp=record.timestamp)
    whole = both.work(2_000).assignments[HALF:]
    shifted = [_moved(message, HALF) for message in live.assignments]
    assert shifted == [orjson.loads(message.value) for message in whole]
    assert deployment.verify().identical


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_is_read_once_by_each_process(monkeypatch, history, processes):
    opened = []

    class Opened(RecordFile):
        def __enter__(self):
            opened.append(self._path)
            return super().__enter__()

    def counted(given, jobs, processes, report):
        """Do in this process what others would; what they are sent is the same."""
        return [pickle.loads(pickle.dumps(job))(report) for job in jobs], 0.0  # noqa: S301

    monkeypatch.setattr(several_files, "RecordFile", Opened)
    monkeypatch.setattr(file_partitions, "run_jobs", counted)
    deployment = MemoryDeployment(monkeypatch, partitions=2)
    found = bootstrap(deployment.given, FromFile(history, Columns(key=("id",))), Span(), processes=processes)
    assert opened == [history] * processes
    assert [part.partition for part in found] == [0, 1]
    assert sum(part.records for part in found) == HALF
    assert all(part.records and part.archived for part in found)
    snapshots, archives = (
        [log for (name, _), log in sorted(deployment.logs.items()) if name == topic]
        for topic in (deployment.source.snapshots, deployment.source.archive)
    )
    assert all(snapshots) and all(archives)


def _moved(message, by):
    content = orjson.loads(message.value)
    content["source"]["offset"] += by
    return content


def test_a_file_needs_its_archive_to_be_replayed(deployment, history):
    bootstrap(deployment.given, FromFile(history, Columns(key=("key",))), Span())
    deployment.work(600)
    deployment.logs[deployment.source.archive, 0] = []
    with pytest.raises(MismatchError, match="the models did not begin in this log"):
        deployment.verify()


@pytest.mark.parametrize("worked", [False, True])
@pytest.mark.parametrize("of_file", [False, True])
def test_a_lost_snapshots_topic_is_not_made_up_for(deployment, history, worked, of_file):
    what = FromFile(history, Columns(key=("key",))) if of_file else [TOPIC]
    bootstrap(deployment.given, what, Span.parse(end=str(HALF)))
    if worked:
        deployment.work(400)
    deployment.logs[deployment.source.snapshots, 0] = []
    with pytest.raises(MismatchError, match=r"did not come from this log alone \(a file"):
        deployment.work(600)


def test_a_deployment_that_has_learned_is_left_alone(deployment):
    deployment.work(200)
    with pytest.raises(MismatchError, match=r"has learned from features\[0\] already, up to offset 200; .*--reset"):
        bootstrap(deployment.given, [TOPIC], Span())
    assert deployment.written == []


def test_the_command_says_what_was_done(deployment, printed):
    shown = printed(run, "bootstrap", TOPIC, "--to", "450")
    _, row, below = shown.out.splitlines()
    assert row.split() == ["features", "0", "450", "2", row.split()[-3], "0", "450"]
    command = """resonance worker --set 'input.topics=["features"]'"""
    assert below == f"learned 450 records silently; `{command}` goes on as group resonance"
    assert "a bootstrap is for a deployment that begins" in printed(run, "bootstrap", code=65).err


def test_the_command_writes_json(deployment, history, printed):
    found = orjson.loads(printed(run, "bootstrap", str(history), "--key", "key", "--json").out)
    assert (found["group"], found["records"], found["partitions"][0]["offset"]) == ("resonance", HALF, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.jsonl"], 66, "nowhere.jsonl cannot be read"),
        (["other"], 2, "other is neither a file nor an input topic of resonance"),
        (["history.jsonl", "--to", "3"], 2, "--to is for topics"),
    ],
)
def test_the_command_says_what_is_wrong(deployment, history, arguments, code, message, printed):
    assert message in printed(run, "bootstrap", *arguments, code=code).err


def test_after_a_reset_it_begins_with_the_version_that_the_reset_chose(deployment):
    deployment.work(200)
    deployment.expire(TOPIC, 100)
    reset(deployment.source)
    (part,) = bootstrap(deployment.given, [TOPIC], Span.parse(end=str(HALF)))
    assert (part.records, part.offset) == (HALF - 100, HALF)
    assert {orjson.loads(message.value)["version"] for message in deployment.work(600).assignments} == {2}
    (part,) = deployment.verify(begin=str(HALF)).parts
    assert part.difference is None


def parts_of(deployment):
    """What the models of re-keyed streams are beside their places in the log."""
    found = {}
    for part in deployment.restored(ROUTES).values():
        for model in part.task.models:
            found[model.name] = model.preparation.state(), model.engine.state(), model.seq, model.version
    return found


def answers_of(deployment):
    logs = [deployment.recorded("assignments", partition) for partition in deployment.partitions]
    found = [orjson.loads(record.value) for log in logs for record in log]
    return {(one["source"]["partition"], one["source"]["offset"]): one for one in found}


@pytest.mark.parametrize("stream", ["topic", "field:country"])
def test_rekeyed_history_gives_the_models_of_workers_that_read_it(monkeypatch, stream):
    live = rekeyed(monkeypatch, partitions=1, stream=stream)
    live.turn()
    early = rekeyed(monkeypatch, partitions=1, stream=stream)
    learned = bootstrap(early.given, [TOPIC], Span.parse(end="500"))
    assert [(part.topic, part.offset) for part in learned] == [(TOPIC, 500), *[(ROUTES, 0)] * 3]
    assert sum(part.records for part in learned) == 500
    assert not any(early.logs[ROUTES, partition] for partition in range(3))
    early.turn()
    live.serve(monkeypatch)
    whole = parts_of(live)
    early.serve(monkeypatch)
    assert parts_of(early) == whole
    assert answers_of(early) == {at: one for at, one in answers_of(live).items() if at[1] >= 500}
    assert early.verify().identical


def test_rekeyed_history_of_several_partitions_is_learned_by_its_timestamps(monkeypatch):
    rows = sorted((r for log in inputs(900, 2).values() for r in log), key=lambda record: record.timestamp)
    alone = make_task(rekeyed(monkeypatch).given, ROUTES, 0, TaskContext(routes=1))
    routers = [make_task(alone._settings, TOPIC, partition, TaskContext(routes=1)) for partition in range(2)]
    messages = [message for row in rows for message in routers[row.partition].process([row]).routes]
    alone.process([Record(ROUTES, 0, i, STAMP, m.key, m.value, m.headers) for i, m in enumerate(messages)])
    early = rekeyed(monkeypatch)
    bootstrap(early.given, [TOPIC], Span())
    expected = {m.name: (m.preparation.state(), m.engine.state(), m.seq, m.version) for m in alone.models}
    assert parts_of(early) == expected


def test_a_rekeyed_file_is_learned_as_if_it_stood_before_the_log(monkeypatch, tmp_path):
    path, live = tmp_path / "history.jsonl", rekeyed(monkeypatch, partitions=1)
    live.turn()
    before = live.logs[TOPIC, 0][:500]
    path.write_bytes(b"".join((record.value or b"") + b"\n" for record in before))
    early = rekeyed(monkeypatch, partitions=1)
    early.logs[TOPIC, 0] = [r._replace(offset=r.offset - 500) for r in early.logs[TOPIC, 0][500:]]
    learned = bootstrap(early.given, FromFile(path, Columns()), Span())
    assert [(part.topic, part.offset) for part in learned] == [(TOPIC, 0), *[(ROUTES, 0)] * 3]
    early.turn()
    live.serve(monkeypatch)
    whole = parts_of(live)
    early.serve(monkeypatch)
    assert parts_of(early) == whole
    found = {at[1] + 500: one["clusters"] for at, one in answers_of(early).items()}
    assert found == {at[1]: one["clusters"] for at, one in answers_of(live).items() if at[1] >= 500}
