"""The records of an input that outputs name, as they were sent."""

import orjson
import pytest
from resonance.pipeline.inspect.originals import content_of, read_original

from tests.pipeline.memory_deployment import MemoryDeployment, packed
from tests.pipeline.streams import TOPIC, settings


@pytest.fixture
def deployment(monkeypatch):
    made = packed(MemoryDeployment(monkeypatch, input__records=".", input__id_path="id"))
    made.work(60)
    return made


def test_a_record_of_a_message_is_shown_alone(deployment):
    answers = [orjson.loads(record.value) for record in deployment.recorded()]
    for answer in answers[::100]:
        record, missing = read_original(deployment, answer["source"], deployment.given)
        assert content_of(record, missing, deployment.given)["value"]["id"] == answer["id"]


def test_the_typical_records_of_clusters_are_found(deployment):
    models = deployment.restored(TOPIC)[TOPIC, 0].task.models
    examples = [each for model in models for number in range(50) for each in model.examples.of(number, (TOPIC, 0))]
    assert len(examples) > 5
    for example in examples:
        record, _ = read_original(deployment, example["source"], deployment.given)
        assert orjson.loads(record.value)["id"] == example["id"]


@pytest.mark.parametrize("given", [settings(input__records="."), settings(input__records="items")])
def test_a_message_that_has_it_no_more_says_so(deployment, given):
    source = {"topic": TOPIC, "partition": 0, "offset": 3, "index": 77}
    record, missing = read_original(deployment, source, given)
    assert record is None
    assert missing.startswith("its message")
