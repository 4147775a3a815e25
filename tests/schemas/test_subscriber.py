"""What a downstream program needs of this distribution, and what its subscriber recognises."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.schemas import PresentName, Subscriber, subscriber
from resonance.schemas.repeats import Repeats

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
        "resonance needs typer, which is not installed; in a clone of Resonance: pip install '.[worker]'\n",
    )


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
    monkeypatch.setattr(subscriber, "_log", log)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with EmbeddedBroker(["shop.cluster-events", "shop.clusters"]) as broker:
            reader = Subscriber({"bootstrap.servers": broker.bootstrap, "debug": "all"}, "shop", "team")
            log.armed = True
            with pytest.raises(KeyboardInterrupt):
                call(reader)
            reader.close()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cluster_has_its_present_name_and_lineage(monkeypatch):
    monkeypatch.setattr(subscriber, "LOOK_SECONDS", 0.1)
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
            assert reader.names.lineage.lives["p0/1/0"].splits == ["p0/1/1"]
            name(broker, "p0/1/2", "old one")
            end = time.monotonic() + 30
            while str(reader.name("p0/1/2")) != "night batch; also old one":
                assert time.monotonic() < end
                reader.poll(0.1)
