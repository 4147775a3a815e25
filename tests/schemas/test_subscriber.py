"""What a downstream program needs of this distribution, and what its subscriber recognises."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.schemas import OutputReader, PresentName, Subscriber, output_reader, subscriber
from resonance.schemas.output_reader import Repeats

from tests.pipeline.page import outputs

HEAVY = (
    "faust",
    "mode",
    "aiokafka",
    "aiohttp",
    "numba",
    "numpy",
    "pydantic",
    "typer",
    "rich",
    "orjson",
    "resonance.engine",
)


def test_the_schemas_need_confluent_kafka_alone():
    shown = f"import sys; sys.modules.update(dict.fromkeys({HEAVY}, None)); import resonance.schemas as s; s.Subscriber"
    subprocess.run([sys.executable, "-c", shown], check=True)


def test_an_unknown_kind_of_output_is_refused():
    with pytest.raises(ValueError, match=r"event: the kinds of outputs are assignments, cluster-events, "):
        Subscriber("127.0.0.1:9", "shop", "team", ["event"])


def test_a_repeat_is_recognised_among_the_last():
    repeats = Repeats(remembered=2)
    assert [repeats.has_seen(each) for each in ("a", "a", "b", "c", "a")] == [False, True, False, False, False]
    assert repeats.count == 1


def test_the_command_without_its_packages_names_the_extra():
    shown = "import sys; sys.modules['typer'] = None; from resonance.pipeline.cli.start import main; main()"
    ended = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (
        1,
        "resonance needs typer, which is not installed: pip install 'resonance-streams[worker]'\n",
    )


def event(name, seq, **more):
    return json.dumps(outputs.event("emerged", name, seq) | more).encode()


def answer(offset, **more):
    return json.dumps(outputs.answer("p0", 0, offset) | {"id": f"r{offset}", "score": 0.5} | more).encode()


STRANGE = (b"no json", None, b"", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"a": 1}', answer(9, novel="no"))


def take(reader, count):
    found, end = [], time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < end, found
        found += reader.poll(0.2)
    return found


def test_what_no_worker_wrote_is_left_out_and_counted(monkeypatch, caplog):
    monkeypatch.setattr(subscriber, "END_SECONDS", 1.0)
    kinds = ["assignments", "cluster-events", "dead-letters"]
    with EmbeddedBroker([f"shop.{kind}" for kind in (*kinds, "clusters", "names")]) as broker:
        broker.append("shop.clusters", 0, None, None)
        for value in STRANGE[:-1]:
            broker.append("shop.clusters", 0, value, None)
            broker.append("shop.clusters", 0, value or b"x", b"p0/1/9")
            broker.append("shop.names", 0, value, b"p0/1/9")
            broker.append("shop.cluster-events", 0, value)
        key, value = outputs.cluster("p0/1/0")
        broker.append("shop.clusters", 0, value, key)
        for number, value in enumerate((*STRANGE, answer(1, more="of a later release"))):
            broker.append("shop.assignments", 0, value, b"k", [(f"h{number}", b"")])
        # It has the members of an event, but none of them is of use; and one of a stream whose events are missing.
        broker.append("shop.cluster-events", 0, event("p0/1/1", 1, after=["p0/1/1"]))
        broker.append("shop.cluster-events", 0, event("p9/1/1", 7))
        broker.append("shop.cluster-events", 0, event("p9/1/2", 9))
        broker.append("shop.cluster-events", 0, event("p0/1/1", 1))
        broker.append("shop.dead-letters", 0, b"x")
        broker.append("shop.dead-letters", 0, b"y", headers=[("shop.error.class", b"not_json")])
        broker.flush()
        with Subscriber(broker.bootstrap, "shop", "team", kinds) as reader:
            found = take(reader, 5)
            assert sorted((each.kind, each.value) for each in found if each.kind != "cluster-events") == [
                ("assignments", json.loads(answer(1, more="of a later release"))),
                ("dead-letters", b"y"),
            ]
            assert [each.value["cluster"] for each in found if each.kind == "cluster-events"] == [
                "p9/1/1",
                "p9/1/2",
                "p0/1/1",
            ]
            assert sorted(reader.table.clusters("p0")) == ["p0/1/0", "p0/1/1"]
            assert reader.foreign == (2 * 8 + 1) + 8 + 1 + len(STRANGE) + 1
            assert not reader.name("p0/1/9")
    assert "shop.assignments[0]@0 is no output of a worker: left out" in caplog.text
    assert "stream p9: event 9 came where event 8 was to come" in caplog.text


def test_all_gaps_of_a_batch_are_waited_for_together_and_a_stream_that_goes_on_has_none(monkeypatch, caplog):
    monkeypatch.setattr(subscriber, "END_SECONDS", 1.0)

    def come(reader, *events):
        """Let events be one batch, and return the seconds that it takes."""
        outputs_of = (
            ("cluster-events", value, "shop.cluster-events", 0, at, None, (), 0) for at, value in enumerate(events)
        )
        reader._fetched.extend(map(subscriber.Output._make, outputs_of))
        begin = time.monotonic()
        assert len(reader.poll(0.0)) == len(events)
        return time.monotonic() - begin

    with EmbeddedBroker(["shop.cluster-events", "shop.clusters"]) as broker:
        broker.append("shop.clusters", 0, *reversed(outputs.cluster("p0/1/0")))
        broker.flush()
        with Subscriber(broker.bootstrap, "shop", "team") as reader:
            gaps = [outputs.event("emerged", f"s{n}/1/{seq}", seq) for n in range(8) for seq in (0, 2)]
            assert come(reader, *gaps) < 4.0
            assert caplog.text.count("event 2 came where event 1 was to come") == 8
            assert come(reader, outputs.event("emerged", "s0/1/2", 2), outputs.event("emerged", "s1/1/1", 1)) < 0.5
            assert {stream for stream, _ in reader._clusters._gaps} == {f"s{n}" for n in range(8)} - {"s1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("0.12345678901234567891", "0.12345678901234567891"), ("18446744073709551617", 2**64 + 1)),
        *(("0.5", 0.5), ("5e-7", 5e-7), ("1e400", "1e400"), (f"1e{'9' * 30}", f"1e{'9' * 30}")),
    ],
)
def test_the_number_that_a_record_calls_itself_keeps_its_digits(text, expected):
    assert output_reader.parsed(answer(1, id="ID").replace(b'"ID"', text.encode()))["id"] == expected


class FakeMessage:
    def __init__(self, offset, code=None):
        self._offset, self._code = offset, code

    def error(self):
        return None if self._code is None else KafkaError(self._code)

    def __getattr__(self, name):
        values = {"topic": "shop.assignments", "partition": 0, "offset": self._offset, "key": None, "headers": None}
        return lambda: values.get(name, answer(self._offset))


@pytest.mark.parametrize("way", ["poll", "iterate", "iterate anew"])
def test_what_came_before_an_error_is_not_lost(monkeypatch, way):
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    batches = [[FakeMessage(0), FakeMessage(1), FakeMessage(2, refused), FakeMessage(3)], [FakeMessage(4)], []]
    with (
        EmbeddedBroker(["shop.assignments", "shop.clusters"]) as broker,
        Subscriber(broker.bootstrap, "shop", "team", ["assignments"]) as reader,
    ):
        monkeypatch.setattr(reader._consumer, "consume", lambda *_: batches.pop(0))
        monkeypatch.setattr(reader, "_store", lambda _: None)
        found, failures = [], 0
        while len(batches) > 1 or not failures or len(found) < 4:
            try:
                if way == "poll":
                    found += reader.poll()
                for output in reader if way != "poll" else ():
                    found.append(output)
                    if way == "iterate anew" or len(found) == 4:
                        break
            except KafkaException:
                failures += 1
    assert ([each.offset for each in found], failures) == ([0, 1, 3, 4], 1)


def test_a_reader_without_a_group_reads_to_the_end_or_what_comes(monkeypatch):
    monkeypatch.setattr(output_reader, "LOOK_SECONDS", 0.1)
    with EmbeddedBroker(["shop.assignments", "shop.clusters"]) as broker:
        for offset in (0, 1, 1, 2):
            broker.append("shop.assignments", offset % 2, answer(offset), b"k")
        broker.append("shop.assignments", 0, b"no json")
        key, value = outputs.cluster("p0/1/0")
        for each in (value, None, value):
            broker.append("shop.clusters", 0, each, key)
        broker.flush()
        with OutputReader(broker.bootstrap, "shop", ["assignments", "clusters"]) as reader:
            found = list(reader.to_end())
            assert sorted(each.value["id"] for each in found if each.kind == "assignments") == ["r0", "r1", "r2"]
            assert [each.value is None for each in found if each.kind == "clusters"] == [False, True, False]
            assert (reader.foreign, reader.repeats, list(reader.to_end())) == (1, 1, [])
        with OutputReader(broker.bootstrap, "shop", ["assignments", "alerts"], "latest") as reader:
            assert reader.poll(0.2) == []
            broker.append("shop.assignments", 0, answer(7), b"k")
            broker.create(["shop.alerts"])
            broker.append("shop.alerts", 1, json.dumps(outputs.alert("opened", "p0")).encode(), b"a")
            broker.flush()
            assert {each.kind for each in take(reader, 2)} == {"assignments", "alerts"}
        start = {("shop.assignments", 0): 1}
        with OutputReader(broker.bootstrap, "shop", ["assignments"], start, loads=None) as reader:
            assert [each.value for each in reader.to_end()] == [answer(2), b"no json", answer(7)]


def test_clusters_that_ended_long_ago_are_gone_and_nobody_asks_for_each(monkeypatch):
    requests = []
    monkeypatch.setattr(subscriber._Clusters, "read_to_end", lambda _: requests.append(1))
    with EmbeddedBroker(["shop.assignments", "shop.clusters"]) as broker:
        for offset in range(20):
            broker.append("shop.assignments", 0, answer(offset, cluster=f"p0/1/{offset}"), b"k")
        broker.flush()
        with Subscriber(broker.bootstrap, "shop", "team", ["assignments"]) as reader:
            found = take(reader, 20)
            assert [reader.resolve(each.value["cluster"]) for each in found * 3] == [None] * 60
            assert len(requests) == 2
            reader.poll(0.01)
            assert (reader.resolve("p0/1/3"), reader.resolve("no id"), len(requests)) == (None, None, 3)


def test_the_program_of_the_page_goes_on_where_clusters_ended_long_ago():
    page = (Path(__file__).resolve().parents[2] / "docs/consuming.md").read_text()
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    with EmbeddedBroker([f"shop.{kind}" for kind in ("assignments", "cluster-events", "clusters", "names")]) as broker:
        for offset, value in enumerate((None, b"no json", answer(2), answer(3, novel=True, cluster=None), answer(4))):
            broker.append("shop.assignments", 0, value, b"k", [("offset", b"%d" % offset)])
        broker.flush()
        program = program.replace("localhost:9092", broker.bootstrap).replace('"checkout"', '"shop"')
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            lines = [process.stdout.readline() for _ in range(3)]
            process.kill()
    assert lines[0] == lines[2].replace("r4", "r2") == "r2 belongs to None \n"
    assert lines[1].endswith("is unlike all before\n")


class StopsAtNextLine:
    """A log during whose next line Ctrl-C arrives."""

    def __init__(self):
        self.armed = False

    def log(self, *line):
        if self.armed:
            self.armed = False
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.skipif(sys.platform == "win32", reason="signals to oneself")
@pytest.mark.parametrize("call", [Subscriber.poll, Subscriber.close, lambda subscriber: next(iter(subscriber))])
def test_ctrl_c_in_the_middle_of_a_line_of_the_log_is_no_system_error(monkeypatch, call):
    log = StopsAtNextLine()
    monkeypatch.setattr(output_reader, "_log", log)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with EmbeddedBroker(["shop.cluster-events", "shop.clusters"]) as broker:
            reader = Subscriber({"bootstrap.servers": broker.bootstrap, "debug": "all"}, "shop", "team")
            log.armed = True
            with pytest.raises(KeyboardInterrupt):
                call(reader)
            # On a busy machine this close has been seen to wait for ever, in librdkafka.
            closing = threading.Thread(target=reader.close, daemon=True)
            closing.start()
            closing.join(60)
            assert not closing.is_alive()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cluster_has_its_present_name_and_lineage(monkeypatch):
    monkeypatch.setattr(output_reader, "LOOK_SECONDS", 0.1)
    topics = [f"shop.{kind}" for kind in ("assignments", "cluster-events", "clusters")]

    def name(broker, cluster, text):
        value = json.dumps({"cluster": cluster, "name": text, "time": outputs.time_of(0)}).encode()
        broker.append("shop.names", 0, value, cluster.encode())
        broker.flush()

    with EmbeddedBroker([*topics, "shop.names"]) as broker:
        events = [
            outputs.event("emerged", "p0/1/0"),
            outputs.event("split", "p0/1/1", 1, 5, other="p0/1/0"),
            outputs.event("absorbed", "p0/1/2", 2, 9, other="p0/1/0"),
        ]
        for each in events:
            broker.append("shop.cluster-events", 0, json.dumps(each).encode(), b"p0")
        for each in ("p0/1/0", "p0/1/1"):
            key, value = outputs.cluster(each)
            broker.append("shop.clusters", 0, value, key)
        key, value = outputs.cluster("p0/1/3", keywords=["refund", "card"])
        broker.append("shop.clusters", 0, value, key)
        key, value = outputs.cluster("p0/1/2", ended="absorbed", successors=["p0/1/0"])
        broker.append("shop.clusters", 0, value, key)
        broker.append("shop.cluster-events", 0, b"no event", b"p0")
        name(broker, "p0/1/0", "night batch")
        with Subscriber(broker.bootstrap, "shop", "team", ["assignments"]) as reader:
            assert reader.name("p0/1/0") == PresentName("night batch")
            assert str(reader.name("p0/1/1")) == "from night batch"
            # What absorbed it is what it is now.
            assert (reader.resolve("p0/1/2"), str(reader.name("p0/1/2"))) == ("p0/1/0", "night batch")
            assert not reader.name("p9/1/0")
            assert str(reader.name("p0/1/3")) == "refund, card"
            assert reader.names.table.lives["p0/1/0"].splits == ("p0/1/1",)
            name(broker, "p0/1/1", "probes")
            end = time.monotonic() + 30
            while str(reader.name("p0/1/1")) != "probes":
                assert time.monotonic() < end
                reader.poll(0.1)
