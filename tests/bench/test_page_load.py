"""What the load of the page's benchmark writes."""

from collections import defaultdict
from itertools import islice

import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.schemas import load_schema

from bench.page_load import PARTITIONS, Writer


class Kept:
    """A producer that keeps what it gets, by topic."""

    def __init__(self):
        self.messages = defaultdict(list)

    def produce(self, topic, value, key, partition, headers):
        self.messages[topic].append((partition, key, orjson.loads(value)))

    def init_transactions(self, timeout): ...
    def begin_transaction(self): ...
    def commit_transaction(self, timeout): ...
    def flush(self, timeout): ...


@pytest.fixture(scope="module")
def written():
    producer = Kept()
    writer = Writer("p", 5, 2, producer)
    writer.load()
    changes = list(islice(writer.write(2_000, 50), 12))
    return changes, producer.messages


def test_it_has_the_form_of_a_workers_outputs(written):
    _, messages = written
    for topic, schema in (("assignments", "assignment"), ("clusters", "cluster"), ("cluster-events", "cluster_event")):
        check = Draft202012Validator(load_schema(schema))
        assert messages[f"p.{topic}"]
        for _, _, value in messages[f"p.{topic}"]:
            check.validate(value)


def test_a_stream_is_in_one_partition_and_keeps_its_number_of_clusters(written):
    changes, messages = written
    places = defaultdict(set)
    present = set()
    for values in messages.values():
        for partition, _, value in values:
            places[value["stream"]].add(partition)
    for _, key, value in messages["p.clusters"]:
        (present.discard if "ended" in value else present.add)(key.decode())
    assert {len(found) for found in places.values()} == {1}
    assert len(places) > PARTITIONS
    assert len(present) == 5 * 2
    assert {change["cluster"] for change in changes} <= {value["cluster"] for *_, value in messages["p.cluster-events"]}
