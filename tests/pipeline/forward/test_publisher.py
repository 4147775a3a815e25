"""The topic of incidents has what the outputs show, however often and by how many it is written."""

import json
from operator import itemgetter

import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.forward import published as of_topic
from resonance.pipeline.forward import publisher as publishing
from resonance.pipeline.forward.published import check_published
from resonance.pipeline.forward.publisher import IncidentPublisher
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.schemas import load_schema

from tests.brokers import read_topic
from tests.pipeline.incidents.outputs import BROKE, WORK, alert, output

TOPICS = ("cluster-events", "alerts", "drift-events", "incidents")


@pytest.fixture
def bus():
    with EmbeddedBroker([f"shop.{kind}" for kind in TOPICS]) as broker:
        yield broker


def write(bus, *outputs):
    for kind, payload in outputs:
        bus.append(f"shop.{kind.replace('_', '-')}", 0, json.dumps(payload).encode())
    bus.flush()


def quiet(streams):
    """Outputs of streams to which nothing happens, at both ends of a day."""
    found = [(f"p{number % 2}:d{number}", minute) for number in streams for minute in (0, 1_439)]
    empty = {"kind": "vanished", "cluster": None, "after": [], "before": []}
    return [output("cluster_events", stream, minute, **empty) for stream, minute in found]


def publisher(bus):
    return IncidentPublisher(Settings.of({"name": "shop", "broker.bootstrap": bus.bootstrap, "input.topics": ["t"]}))


def published(bus):
    """The messages of the topic: keys and incidents."""
    written = read_topic(bus.bootstrap, "shop.incidents")
    found = [(each.key().decode(), json.loads(each.value() or b"null")) for each in written]
    for key, incident in filter(itemgetter(1), found):
        Draft202012Validator(load_schema("incident")).validate(incident)
        assert key == incident["key"]
    return found


def test_what_changes_is_published_once_and_the_newest_of_each_key_is_what_the_outputs_show(bus):
    one = publisher(bus)
    table = IncidentTable()
    for part in ([*quiet(range(4)), BROKE[0]], [*BROKE[1:], *WORK[:3]], WORK[3:]):
        write(bus, *part)
        for kind, payload in part:
            table.apply(kind, payload)
        one.run()
        newest = [each for each in dict(published(bus)).values() if "within" not in each]
        assert {each["key"] for each in newest} <= {key for each in table.incidents() for key in each["alerts"]}
        found = sorted(each["text"] for each in table.incidents())
        assert sorted(each["text"] for each in newest) == found
    count = len(published(bus))
    assert one.published == count
    # Another one, with no memory but the topic; a new stream that has no part in them changes nothing either.
    other = publisher(bus)
    write(bus, *quiet([8]))
    for each in (one, other, one):
        each.run()
    assert len(published(bus)) == count
    write(bus, alert("p1:d1", 900, "silent", seconds=600.0))
    other.run()
    one.run()
    assert len(published(bus)) == count + 1
    for each in (one, other):
        each.close()


def test_an_incident_keeps_its_key_where_an_earlier_sign_comes_later_and_others_join_it(bus):
    one = publisher(bus)
    write(bus, *quiet(range(6)), alert("p0:d2", 310, "silent", seconds=300.0))
    one.run()
    write(bus, alert("p1:d3", 309, "silent", seconds=240.0))
    one.run()
    first = "alert/silent/p0:d2/1/0"
    (key, grown) = published(bus)[-1]
    assert (key, grown["is_open"], grown["streams"]) == (first, True, ["p0:d2", "p1:d3"])
    # One that seems to be another, and is joined by what comes between them.
    write(bus, alert("p0:d4", 480, "silent", seconds=300.0))
    one.run()
    other = "alert/silent/p0:d4/1/0"
    newest = dict(published(bus))
    assert newest.keys() == {first, other}
    third, table = "alert/silent/p1:d3/1/0", one._incidents._table
    table.heads = lambda: dict.fromkeys((first, other, third), third)
    table.incidents = lambda: [{**grown, "key": third, "signs": 3}]
    one._publish(one._connection[1])
    newest = dict(published(bus))
    assert (newest[other]["is_open"], newest[other]["within"]) == (False, first)
    assert (newest[first]["is_open"], newest[first]["signs"]) == (True, 3)
    count = len(published(bus))
    one._publish(one._connection[1])
    assert len(published(bus)) == count
    # What outputs no longer have ends, and then leaves the topic.
    table.heads, table.incidents = dict, list
    one._publish(one._connection[1])
    assert not dict(published(bus))[first]["is_open"]
    one._publish(one._connection[1])
    one.close()
    assert dict(published(bus)) == dict.fromkeys((first, other))


def test_a_message_has_room_for_an_incident_of_any_fleet(bus, monkeypatch):
    monkeypatch.setattr(of_topic, "MOST", 2)
    one = publisher(bus)
    write(bus, *quiet(range(4)), *(alert(f"p{n % 2}:d{n}", 300 + n, "silent", seconds=300.0) for n in range(4)))
    one.run()
    one.close()
    ((_, found),) = published(bus)
    assert (len(found["streams"]), len(found["alerts"]), found["left_out"]) == (2, 2, 4)
    assert found["text"].startswith("all 4 streams")


def test_what_fails_is_tried_again_from_the_topic(bus, monkeypatch):
    one = publisher(bus)
    write(bus, *quiet(range(4)), BROKE[0])
    monkeypatch.setattr(publishing, "PATIENCE", 0.5)
    with monkeypatch.context() as patch:
        patch.setitem(one._client, "bootstrap.servers", "127.0.0.1:9")
        one.run()
        assert one.trouble
    one.run()
    assert (one.trouble, one.published, len(published(bus))) == ("", 1, 1)
    one.close()


def test_what_is_published_is_checked_against_the_outputs(bus, monkeypatch):
    monkeypatch.setattr(of_topic, "BEHIND_SECONDS", 0.0)
    one = publisher(bus)
    write(bus, *quiet(range(4)), *BROKE, *WORK)
    one.run()
    reader, given = one._connection[0], one._settings
    count, changes = check_published(given, reader)
    assert (count, changes) == (len(one._incidents.shown), []) and count
    (key, shown), *_ = one._incidents.shown.items()
    forged = {**shown, "severity": "info"}
    for at, value in ((key, forged), (key, None), ("alert/silent/none/1/0", {**shown, "key": "alert/silent/none/1/0"})):
        bus.append("shop.incidents", 0, json.dumps(value).encode() if value else None, key=at.encode())
        bus.flush()
        assert at in check_published(given, reader)[1]
    one.run()
    one.run()
    assert check_published(given, reader) == (count, [])
    one.close()
