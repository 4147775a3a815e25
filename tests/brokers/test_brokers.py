"""The broker of the tests: it answers, keeps what is written, and its cache heals itself."""

import json
import shutil
import socket

import pytest

from tests.brokers import NoBrokerError, __main__, answers, jvm, running_broker


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
