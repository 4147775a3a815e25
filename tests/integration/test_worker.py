"""The worker as a process on a real broker: what goes in, what comes out, once."""

import random

import pytest
from confluent_kafka import Producer

from tests.brokers import produce, read_topic
from tests.brokers.raw import produce_raw
from tests.integration.workers import Deployment, records, wait_until
from tests.night import at_night

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


@pytest.fixture
def deployment(broker):
    # Raw batches have times of long ago; half a minute after its start a broker deletes what is too old.
    return Deployment(broker, retention_ms=-1)


def transactional(deployment):
    producer = Producer({"bootstrap.servers": deployment.broker, "transactional.id": deployment.input, "linger.ms": 0})
    producer.init_transactions(20)
    return producer


def transaction(producer, deployment, first, count, *, commit=True):
    producer.begin_transaction()
    for partition, key, value in records(count, deployment.partitions, first=first):
        producer.produce(deployment.input, value, key, partition)
    producer.flush(20)
    producer.commit_transaction(20) if commit else producer.abort_transaction(20)


@pytest.mark.parametrize("mode", ["exactly_once", "at_least_once"])
def test_only_committed_records_are_answered_live_and_after_a_kill(deployment, mode):
    producer = transactional(deployment)
    mode = {"delivery.mode": mode}
    transaction(producer, deployment, 0, 400)
    with deployment.worker(settings=mode) as worker:
        worker.wait_for(lambda health: health["records"] == 400)
        transaction(producer, deployment, 400, 400, commit=False)
        transaction(producer, deployment, 800, 400)
        worker.wait_for(lambda health: health["records"] == 800)
        # Markers and aborted records are behind the committed offset: nothing lags.
        wait_until(lambda: deployment.committed() == deployment.ends())
        worker.kill()
    transaction(producer, deployment, 1200, 400, commit=False)
    transaction(producer, deployment, 1600, 400)
    with deployment.worker(settings=mode) as worker:
        worker.wait_for(lambda health: health["records"] == 400)
        transaction(producer, deployment, 2000, 4, commit=False)
        wait_until(lambda: deployment.committed() == deployment.ends())
        assert worker.terminate() == 0
    expected = [(m.partition(), m.offset()) for m in read_topic(deployment.broker, deployment.input)]
    assert (len(expected), deployment.answers()) == (1200, expected)


@pytest.mark.parametrize("mode", ["exactly_once", at_night("at_least_once")])
def test_a_clean_stop_leaves_nothing_to_learn_again(deployment, mode):
    mode = {"delivery.mode": mode}
    produce(deployment.broker, deployment.input, records(2000))
    assert deployment.work(2000, settings=mode).splitlines()[-1].endswith("the worker ends: SIGTERM")
    assert deployment.committed() == deployment.ends()
    produce(deployment.broker, deployment.input, records(400, first=2000))
    assert "0 records learned again" in deployment.work(400, settings=mode)
    assert deployment.answers() == [(partition, offset) for partition in range(4) for offset in range(600)]


def test_large_records_and_dead_letters_leave_their_neighbours_unharmed(broker):
    deployment = Deployment(broker, partitions=1, max_message_bytes=12_000_000)
    noise = random.Random(1).randbytes(10_000_000)
    huge = b'{"features": [1, 2, 3, 4], "text": "' + noise.hex().encode()[: 10_000_000 - 60] + b'"}'
    small = [value for _, _, value in records(40, 1)]
    values = [*small[:20], noise, *small[20:30], huge, b"no JSON", *small[30:]]
    produce(broker, deployment.input, [(0, b"k", value) for value in values], message_max_bytes=12_000_000)
    deployment.work(len(values))
    dead = {20: noise, 31: huge, 32: b"no JSON"}
    assert [offset for _, offset in deployment.answers()] == [n for n in range(len(values)) if n not in dead]
    dead_letters = read_topic(broker, f"{deployment.name}.dead-letters")
    headers = [dict(each.headers()) for each in dead_letters]
    prefix = f"{deployment.name}.error."
    assert [int(h[prefix + "offset"]) for h in headers] == list(dead)
    for dead_letter, value in zip(dead_letters, dead.values(), strict=True):
        assert value.startswith(dead_letter.value())
        assert len(dead_letter.value()) == len(value) or len(dead_letter.value()) < 1_000_000
    assert dead_letters[2].value() == b"no JSON"


def test_headers_that_are_not_utf_8_harm_no_record(deployment):
    odd = [(b"\xff\xfe", b"1"), ("traceparent", b"t")]
    good = [(key, value, odd if n == 3 else []) for n, (_, key, value) in enumerate(records(28, 1))]
    with deployment.worker() as worker:
        worker.ready()
        produce_raw(deployment.broker, deployment.input, 0, [*good, (b"k", b"no JSON", odd)])
        worker.wait_for(lambda health: health["records"] == 29)
        wait_until(lambda: deployment.committed()[0] == 29)
        worker.kill()
    # They are learned again from another client's hands.
    with deployment.worker() as worker:
        worker.ready()
        produce(deployment.broker, deployment.input, records(40, 1, first=28))
        worker.wait_for(lambda health: health["records"] == 40)
        assert worker.terminate() == 0
        assert ", 29 records learned again" in worker.log()
    assert deployment.answers() == [(0, n) for n in range(69) if n != 28]
    (dead_letter,) = read_topic(deployment.broker, f"{deployment.name}.dead-letters")
    assert (dead_letter.value(), dict(dead_letter.headers())[f"{deployment.name}.error.class"]) == (
        b"no JSON",
        b"not_json",
    )
