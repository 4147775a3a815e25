"""The broker of the tests: it answers, keeps what is written, and its cache heals itself."""

import json
import shutil
import socket

import pytest
from confluent_kafka import Producer

from tests.brokers import NoBrokerError, __main__, answers, create_topic, jvm, produce, read_topic, running_broker


@pytest.mark.broker
def test_what_is_written_is_read_back(broker):
    topic = create_topic(broker, "round-trip", partitions=3)
    records = [(n % 3, b"k%d" % n, None if n == 7 else b"v%d" % n) for n in range(300)]
    produce(broker, topic, records, headers=[("h", b"1"), ("none", None)])
    got = read_topic(broker, topic)
    assert [(m.partition(), m.key(), m.value()) for m in got] == sorted(
        records, key=lambda record: (record[0], int(record[1][1:]))
    )
    assert got[0].headers() == [("h", b"1"), ("none", None)]
    assert [m.key() for m in read_topic(broker, topic, start={0: 99, 1: 100, 2: 100})] == [b"k297"]


@pytest.mark.broker
def test_aborted_records_are_not_read(broker):
    topic = create_topic(broker, "aborted", partitions=1)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions(15)
    for text, end in ((b"a", producer.commit_transaction), (b"b", producer.abort_transaction)) * 2:
        producer.begin_transaction()
        producer.produce(topic, value=text, partition=0)
        producer.flush(10)
        end(10)
    assert [m.value() for m in read_topic(broker, topic)] == [b"a", b"a"]
    assert [m.value() for m in read_topic(broker, topic, committed=False)] == [b"a", b"b", b"a", b"b"]


def test_no_broker_starts_on_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert __main__.main([str(port)]) == 1
    assert (
        capsys.readouterr().err
        == f"port {port} is taken: a broker may run there already, or take another one: make broker PORT=...\n"
    )


def test_a_named_broker_that_does_not_answer_is_said(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP", f"127.0.0.1:{jvm.free_port()}")
    monkeypatch.setattr("tests.brokers.answers", lambda bootstrap, timeout: answers(bootstrap, 0.2))
    with pytest.raises(NoBrokerError, match=r"KAFKA_BOOTSTRAP = .*: no broker answers there"), running_broker():
        pass


def fetch_two(maven, folder):
    (folder / jvm.TOOLS).write_bytes(b"1")
    (folder / "two.jar").write_bytes(b"22")
    (folder / "content.json").write_text(json.dumps({jvm.TOOLS: 1, "two.jar": 2}))


@pytest.mark.parametrize("damage", ["nothing there", "no list", "shorter", "lost", "whole"])
def test_a_damaged_cache_is_fetched_again(tmp_path, monkeypatch, damage):
    target, fetched = tmp_path / "kafka" / "4", []
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(jvm, "_fetch", lambda maven, folder: (fetched.append(1), fetch_two(maven, folder)))
    if damage != "nothing there":
        target.mkdir(parents=True)
        fetch_two("mvn", target)
    if damage == "no list":
        (target / "content.json").unlink()
    if damage == "shorter":
        (target / "two.jar").write_bytes(b"2")
    if damage == "lost":
        (target / jvm.TOOLS).unlink()
    assert jvm.jars(target) == target
    assert sorted(file.name for file in target.glob("*.jar")) == [jvm.TOOLS, "two.jar"]
    assert len(fetched) == (damage != "whole")
    assert [folder.name for folder in target.parent.iterdir()] == ["4"]


def test_without_maven_and_cache_the_reason_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NoBrokerError, match="no mvn on PATH"):
        jvm.jars(tmp_path / "none")
