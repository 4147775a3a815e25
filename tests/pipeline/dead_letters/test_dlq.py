"""Dead letters are listed with their reasons, and go back to their input once each, in order, as they were."""

import json
from dataclasses import replace

import pytest
from resonance.pipeline.cli import dlq
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.dead_letters import replay as dlq_replay
from resonance.pipeline.dead_letters.records import Choice, StoredDeadLetter
from resonance.pipeline.dead_letters.replay import ReplayProgress, ReplaySource, original, plan, replay
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.admin import FoundTopic
from resonance.pipeline.kafka.embedded import PARTITIONS, EmbeddedBroker
from resonance.pipeline.records import Message, Record
from resonance.schemas import dead_letter_headers

from tests.brokers import read_topic
from tests.pipeline.commands import run as run_command
from tests.pipeline.fake_cluster import FakeCluster


@pytest.fixture
def broker():
    with EmbeddedBroker() as running:
        yield running


def run(monkeypatch, broker, *arguments, name="shop", topic="orders"):
    options = ["--name", name, "--broker", broker, "--input.topics", topic, "--broker.answer_timeout", "2"]
    return run_command(monkeypatch, "dlq", *arguments, *options)


LISTED = ("--input.features", "a,b")


def dead_letter(offset, *, kind="wrong_type", stage="validate", partition=0, topic="orders", **more):
    text = {"topic": topic, "partition": partition, "offset": offset, "stage": stage, "class": kind}
    return dead_letter_headers("shop", text | {"message": "x is text, not a number"} | more)


def filled(broker, *dead_letters, partition=0):
    """Make the topics, and append dead letters as (headers, value)."""
    broker.create(["orders", "shop.dead-letters"])
    for headers, value in dead_letters:
        broker.append("shop.dead-letters", partition, value, b"k", [("trace", b"1"), *headers])
    broker.flush()


def stored(broker):
    return [message for message in read_topic(broker.bootstrap, "orders") if message.partition() == 0]


def source(broker):
    places = [("shop.dead-letters", partition) for partition in range(PARTITIONS)]
    topics = dict.fromkeys(("orders", "shop.dead-letters"), FoundTopic("", PARTITIONS))
    return ReplaySource(broker.client_settings(), "shop", places, topics, atomic=False)


def test_dead_letters_are_listed_and_counted(broker, printed):
    filled(
        broker,
        *((dead_letter(n), b'{"x": "a"}') for n in range(3)),
        (dead_letter(7, kind="not_json", stage="decode"), b"{"),
    )
    lines = [line.split() for line in printed(run, broker.bootstrap, "list", "--limit", "2").out.splitlines()]
    assert lines[1] == ["orders[0]@2", "wrong_type", "10", "x", "is", "text,", "not", "a", "number"]
    assert lines[2][:3] == ["orders[0]@7", "not_json", "1"]
    assert lines[-2:] == [["validate", "wrong_type", "3"], ["decode", "not_json", "1"]]


def test_dead_letters_can_be_chosen_and_exported(monkeypatch, capsys, tmp_path, broker):
    cut = dead_letter(9, truncated="value", length=5000, sha256="0" * 64)
    filled(
        broker, (dead_letter(1), b'{"x": 1}'), (dead_letter(2, kind="not_json", stage="decode"), b"\xff"), (cut, b"{")
    )
    assert run(monkeypatch, broker.bootstrap, "list", "--class", "not_json", "--export", "out.jsonl", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"] == 1
    assert found["classes"] == [{"stage": "decode", "class": "not_json", "records": 1}]
    (exported,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (exported["key"], exported["value_base64"]) == ("k", "/w==")
    assert exported["headers"] == [{"name": "trace", "value": "1"}]
    assert exported.items() >= found["letters"][0].items()
    assert run(monkeypatch, broker.bootstrap, "list", "--export", "nowhere/out.jsonl") == 2
    assert "--export nowhere/out.jsonl: it cannot be written (No such file" in capsys.readouterr().err
    assert run(monkeypatch, broker.bootstrap, "list", "--stage", "validate", "--partition", "0", "--json") == 0
    (first, second) = json.loads(capsys.readouterr().out)["letters"]
    assert (first["bytes"], first["truncated"], second["bytes"], second["truncated"]) == (8, None, 5000, "value")


def test_a_list_without_dead_letters_says_so(broker, printed):
    filled(broker)
    assert printed(run, broker.bootstrap, "list") == ("", "no dead letters on shop.dead-letters\n")


@pytest.mark.parametrize(
    ("partition", "offsets"), [("0", [1, 2]), ("1", []), ("orders[0]", [1]), ("other[0]", [2]), ("orders[1]", [])]
)
def test_a_partition_is_a_number_or_that_of_one_topic(monkeypatch, capsys, broker, partition, offsets):
    filled(broker, (dead_letter(1), b"1"), (dead_letter(2, topic="other"), b"2"))
    assert run(monkeypatch, broker.bootstrap, "list", "--json", "--partition", partition) == 0
    assert [one["source"]["offset"] for one in json.loads(capsys.readouterr().out)["letters"]] == offsets


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["list", "--class", "not_jsn"], 2, "did you mean not_json?"),
        (["list", "--stage", "decod"], 2, "did you mean decode?"),
        (["list", "--from", "noon"], 2, "--from noon: must be earliest"),
        (["list", "--partition", "9"], 2, "shop.dead-letters has partitions 0 to 3"),
        (["list", "--partition", "orders[9]"], 2, "shop.dead-letters has partitions 0 to 3"),
        (["replay", "--partition", "orders"], 2, "--partition orders: give a number"),
    ],
)
def test_options_that_mean_nothing_are_reported(broker, options, code, said, printed):
    filled(broker)
    assert said in printed(run, broker.bootstrap, *options, code=code).err


def test_a_replay_does_nothing_without_yes(broker, printed):
    filled(broker, (dead_letter(5), b"five"), (dead_letter(3), b"three"), (dead_letter(4, truncated="value"), b"fo"))
    said = printed(run, broker.bootstrap, "replay")
    *tables, below = said.out.splitlines()
    assert [line.split() for line in tables] == [
        ["to", "class", "records"],
        ["orders[0]", "wrong_type", "2"],
        [],
        ["cannot", "be", "replayed:"],
        ["record", "why"],
        ["orders[0]@4", "cut"],
    ]
    assert (below, said.err) == ("2 dead letters would be replayed; add --yes to do it", "")
    assert not stored(broker)


def test_a_replay_gives_each_record_back_once_and_in_order(monkeypatch, capsys, broker, printed):
    filled(broker, (dead_letter(5), b"five"), (dead_letter(3), b"three"), (dead_letter(5), b"five"))
    shown = json.loads(printed(run, broker.bootstrap, "replay", "--yes", "--json").out)
    assert (shown["done"], shown["records"], shown["classes"]) == (True, 2, {"wrong_type": 2})
    found = stored(broker)
    assert [message.value() for message in found] == [b"three", b"five"]
    assert [message.key() for message in found] == [b"k", b"k"]
    assert found[0].headers() == [("trace", b"1"), ("shop.dlq.source", b"orders-0-3")]
    assert run(monkeypatch, broker.bootstrap, "replay", "--yes") == 0
    assert (capsys.readouterr().err, len(stored(broker))) == ("nothing to replay; 3 were replayed before\n", 2)


def test_a_record_of_a_message_goes_back_in_a_message_of_its_own(monkeypatch, capsys, broker):
    filled(broker, *((dead_letter(5, index=index), b'{"n":%d}' % index) for index in (0, 3, 3)))
    assert run(monkeypatch, broker.bootstrap, "list", "--json", "--input.records", "batch.items", *LISTED) == 0
    first, last, _ = json.loads(capsys.readouterr().out)["letters"]
    assert first["source"] == {"topic": "orders", "partition": 0, "offset": 5, "index": 0}
    assert last["source"] == {"topic": "orders", "partition": 0, "offset": 5, "index": 3}
    assert run(monkeypatch, broker.bootstrap, "replay", "--yes", "--input.records", "batch.items", *LISTED) == 0
    found = stored(broker)
    assert [message.value() for message in found] == [b'{"batch":{"items":[{"n":%d}]}}' % index for index in (0, 3)]
    assert [message.headers()[-1] for message in found] == [
        ("shop.dlq.source", b"orders-0-5.0"),
        ("shop.dlq.source", b"orders-0-5.3"),
    ]


def test_a_record_of_a_message_with_a_schema_stays(broker, printed):
    filled(broker, (dead_letter(5, index=2), b'{"n":2}'))
    avro = ("--input.format", "avro", "--schema_registry.url", "http://127.0.0.1:1")
    out = printed(run, broker.bootstrap, "replay", "--yes", "--input.records", "items", *LISTED, *avro).out
    assert "orders[0]@5.2" in out
    assert "part of a message with a schema" in out
    assert not stored(broker)


def test_dead_letters_of_which_the_broker_may_have_forgotten_that_they_were_replayed_are_reported(
    monkeypatch, broker, printed
):
    filled(broker, (dead_letter(5), b"five"), (dead_letter(6), b"six"))
    monkeypatch.setattr(dlq, "FORGOTTEN_MS", -60_000)
    assert "nothing is known of earlier replays of these partitions" in printed(run, broker.bootstrap, "replay").err
    replay(source(broker), Choice(), limit=1)
    assert "nothing is known" not in printed(run, broker.bootstrap, "replay").err


def test_a_class_can_be_replayed_before_the_others(broker):
    kinds = ["wrong_type", "not_json"] * 4
    filled(broker, *((dead_letter(n, kind=kind), b"%d" % n) for n, kind in enumerate(kinds)))
    replay(source(broker), Choice(kinds=["not_json"]))
    replay(source(broker), Choice(), limit=1)
    left = plan(source(broker), Choice())
    assert [entry.source[2] for entries in left.entries.values() for entry in entries] == [2, 4, 6]
    replay(source(broker), Choice())
    assert [int(message.value()) for message in stored(broker)] == [1, 3, 5, 7, 0, 2, 4, 6]


def test_an_interrupted_replay_goes_on_where_it_stopped(broker, monkeypatch):
    filled(broker, *((dead_letter(n), b"%d" % n) for n in range(5)))
    monkeypatch.setattr(dlq_replay, "STEP_RECORDS", 2)

    def stop(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(source(broker), Choice(), advanced=stop)
    replay(source(broker), Choice())
    assert [int(message.value()) for message in stored(broker)] == list(range(5))


def test_dead_letters_of_a_topic_that_is_no_input_stay(broker):
    filled(broker, (dead_letter(1, topic="secrets"), b"x"), (dead_letter(1, partition=9), b"y"))
    made = replay(source(broker), Choice())
    assert [entry.source[0] for entry in made.foreign] == ["secrets", "orders"]
    assert made.records == 0


def test_dead_letters_of_an_earlier_topic_of_that_name_stay(monkeypatch, broker, printed):
    filled(
        broker,
        (dead_letter(5), b"unsaid"),
        (dead_letter(6, topic_id="first", version="1"), b"old"),
        (dead_letter(6, topic_id="second", version="2"), b"new"),
    )
    first = source(broker)
    made_again = replace(first, topics={**first.topics, "orders": FoundTopic("second", PARTITIONS)})
    monkeypatch.setattr(dlq, "replay_source", lambda *_: made_again)
    said = printed(run, broker.bootstrap, "replay", "--yes")
    assert said.out.splitlines()[-2] == "orders[0]@6  of an earlier topic of that name"
    assert "orders was deleted and made again since 1 of these dead letters were written" in said.err
    assert "dlq list --export FILE" in said.err
    assert [message.value() for message in stored(broker)] == [b"unsaid", b"new"]
    dead_letters = json.loads(printed(run, broker.bootstrap, "list", "--json").out)["letters"]
    assert [(one["topic_id"], one["version"]) for one in dead_letters] == [(None, None), ("first", 1), ("second", 2)]


def test_a_record_that_fails_again_keeps_the_place_of_its_first_original():
    headers = [("shop.dlq.source", b"orders-0-3"), *dead_letter(77)]
    found = StoredDeadLetter.of(Record("shop.dead-letters", 0, 1, 0, None, b"v", headers), "shop")
    assert original(found, ReplaySource({}, "shop", [], {})) == Message(
        None, b"v", [("shop.dlq.source", b"orders-0-3")]
    )
    assert StoredDeadLetter.of(Record("shop.dead-letters", 0, 1, 0, None, b"v", headers), "other") is None


def test_progress_survives_its_note():
    dead_letters = range(0, 4000, 2)
    done = {offset for offset in dead_letters if offset % 6 or offset < 100}
    progress = ReplayProgress().with_done(dead_letters, done)
    again = ReplayProgress.read(progress.below, progress.note("id"), "id")
    assert again == progress
    assert [offset for offset in dead_letters if again.has(offset)] == [n for n in dead_letters if n in done]
    assert again.with_done(dead_letters, set(dead_letters)) == ReplayProgress(3999)


def test_progress_of_an_earlier_topic_of_the_same_name_is_none():
    assert ReplayProgress.read(7, ReplayProgress(7, ((9, 12),)).note("old"), "new") == ReplayProgress()
    assert ReplayProgress.read(-1, None, "") == ReplayProgress()
    assert ReplayProgress.read(7, ":no such note", "") == ReplayProgress(7)


def test_what_cannot_be_remembered_is_refused():
    ranges = tuple((n * n * 7919 % 1009 + n * 3000, n * 3000 + 1500 + n * n % 997) for n in range(1, 3000))
    with pytest.raises(ConfigurationError, match=r"2,999 separate ranges .* fewer filters"):
        ReplayProgress(0, ranges).note("id")


def test_the_topics_of_a_replay_are_looked_up(monkeypatch):
    class Cluster(FakeCluster):
        def __init__(self, *_):
            super().__init__({"shop.dead-letters": (1, {}), "orders": (2, {})})

    monkeypatch.setattr("resonance.pipeline.kafka.admin.ClusterAdmin", Cluster)
    made = dlq.replay_source(Settings.of({"name": "shop", "input.topics": "orders,gone"}), Choice())
    assert (made.topic_id, made.topics["orders"].topic_id) == ("id-shop.dead-letters", "id-orders")
    assert made.topics.keys() == {"shop.dead-letters", "orders"}
