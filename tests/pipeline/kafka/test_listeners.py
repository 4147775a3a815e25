"""Which addresses of brokers cannot be reached, and when that is the reason for a request without an answer."""

import socket
import threading

import pytest
from resonance.pipeline.kafka import listeners
from resonance.pipeline.kafka.listeners import unreached, wrong_listener


@pytest.fixture
def places():
    """Two places: one where something listens, and one where nothing does."""
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as absent:
        absent.bind(("127.0.0.1", 0))
        yield there.getsockname(), absent.getsockname()


def test_one_broker_that_is_away_is_named_only_where_nothing_else_helps(places):
    there, absent = places
    assert unreached("first:9092", [there], all_of_them=False) is None
    assert unreached("first:9092", places, all_of_them=True) is None
    said = str(unreached("first:9092", places, all_of_them=False))
    assert f"first:9092 answers, and gives 127.0.0.1:{absent[1]} (Connection refused) as the address of brok" in said
    assert str(there[1]) not in said
    assert "as the address of its broker" in str(unreached("first:9092", [absent], all_of_them=True))


def test_a_name_that_is_looked_up_for_long_is_not_waited_for(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(listeners, "CONNECT_SECONDS", 0.01)
    monkeypatch.setattr(socket, "create_connection", lambda *_: ended.wait(60) and socket.socket())
    said = str(unreached("first:9092", [("kafka", 9092)], all_of_them=True))
    ended.set()
    assert "gives kafka:9092 (no answer within 0.01 s)" in said


def test_where_no_broker_answers_there_is_no_address_to_blame():
    assert wrong_listener({"bootstrap.servers": "127.0.0.1:9"}, all_of_them=False) is None
