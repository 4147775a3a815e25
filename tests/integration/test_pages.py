"""The pages of a real worker, and a partition that pauses and goes on with nothing lost."""

import json
import urllib.error
import urllib.request

import pytest
from prometheus_client import parser
from resonance.pipeline.worker.http.page_client import resume

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]
SETTINGS = {"dlq.max_share": 0.05, "worker.log_format": "json"}
BAD = [(0, b"k", b"not JSON")]


def page(worker, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(worker):
    """Every sample, by its name and its labels but the topic."""
    found = {}
    for family in parser.text_string_to_metric_families(page(worker, "/metrics")[1]):
        for sample in family.samples:
            labels = tuple(value for name, value in sorted(sample.labels.items()) if name != "topic")
            found[sample.name, *labels] = sample.value
    return found


def test_a_worker_shows_itself_and_pauses_what_becomes_dead_letters_only(broker):
    deployment = Deployment(broker, partitions=2, settings=SETTINGS)
    produce(broker, deployment.input, records(600, 2))
    with deployment.worker() as worker:
        worker.wait_for(lambda health: [seen["answered"] for seen in health["seen"].values()] == [300, 300])
        assert json.loads(page(worker, "/livez")[1])["poll_age_seconds"] < 30
        # The end of a log is known with the fetch behind its last record.
        wait_until(lambda: ("resonance_lag_records", "0") in metrics(worker), 10)
        found = metrics(worker)
        assert found["resonance_ready",] == 1
        assert (found["resonance_records_total", "0"], found["resonance_lag_records", "0"]) == (300, 0)
        assert (found["resonance_streams", "0"], found["resonance_window_records", "0"]) == (1, 300)
        assert 0 < found["resonance_novelty_ratio", "0"] <= 1
        assert found["resonance_batch_seconds_count",] > 0

        produce(broker, deployment.input, BAD * 600)
        produce(broker, deployment.input, records(400, 2, first=600))
        shown = worker.wait_for(
            lambda health: health["problems"] and health["seen"][f"{deployment.input}[1]"]["records"] == 500
        )
        assert shown["problems"][0].startswith(f"{deployment.input}[0] is paused before offset ")
        assert (page(worker, "/readyz")[0], page(worker, "/livez")[0]) == (503, 200)
        found = metrics(worker)
        seen = found["resonance_dead_letters_total", "not_json", "0", "decode"]
        assert 50 < seen < 600
        assert (found["resonance_paused", "0"], found["resonance_paused", "1"]) == (1, 0)
        assert found["resonance_records_total", "0"] == 300 + seen
        # Nothing is fetched of it any more.
        worker.wait_for(lambda health: health["waiting"] == 1_100 - 300 - seen)

        # Whoever owns it next begins with a fresh window, and comes to the same end further on.
        assert worker.terminate() == 0
    assert deployment.committed() == {0: 300 + seen, 1: 500}
    lines = [json.loads(line) for line in worker.log().splitlines()]
    assert [line["partition"] for line in lines if "is paused before" in line["message"]] == [0]
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health["problems"] and "is paused before" in health["problems"][0])
        while worker.health()["seen"][f"{deployment.input}[0]"]["position"] < 1100:
            assert resume(f"http://127.0.0.1:{worker.port}") in ([f"{deployment.input}[0]"], [])
        worker.wait_for(lambda health: health["ready"])
        assert worker.terminate() == 0
    assert deployment.committed() == {0: 1100, 1: 500}
    offsets = [*range(300), *range(900, 1100)]
    assert deployment.answers() == [*((0, n) for n in offsets), *((1, n) for n in range(500))]
    assert len(read_topic(broker, f"{deployment.name}.dead-letters")) == 600
