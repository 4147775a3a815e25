"""A worker that is killed and started again, under the session timeout that users have: who waits, and for how long."""

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.integration.test_processes import is_owner, pids, processes
from tests.integration.workers import Deployment, consumer, records, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

WORKERS = 4
OTHERS_SECONDS, OWN_SECONDS = 5.0, 10.0
"""Longest wait of a partition of another worker, and of the one that was killed."""
DEFAULTS = {"broker.session_timeout": 45, "delivery.transaction_timeout": 60}


class Load:
    """Records for each partition all the time, and when their answers can be read."""

    def __init__(self, broker):
        self.deployment = Deployment(broker, settings=DEFAULTS)
        self.sent = 0
        self.times = {partition: [] for partition in range(WORKERS)}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._read)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _produce(self):
        producer = Producer({"bootstrap.servers": self.deployment.broker})
        while not self._over.wait(0.1):
            for partition, key, value in records(WORKERS, WORKERS, first=self.sent):
                producer.produce(self.deployment.input, value, key, partition)
            self.sent += WORKERS
            producer.flush(10)

    def _read(self):
        answers = f"{self.deployment.name}.assignments"
        with consumer(self.deployment.broker, "reader") as reader:
            wait_until(lambda: answers in reader.list_topics(timeout=5).topics or self._over.is_set(), 200)
            reader.assign([TopicPartition(answers, partition, 0) for partition in range(WORKERS)])
            while not self._over.is_set():
                for message in reader.consume(1_000, 0.05):
                    if message.error() is None:
                        self.times[message.partition()].append(time.monotonic())

    def waits(self, since):
        """The longest time without an answer since then, of each partition, once all of them go on."""
        wait_until(lambda: all(times and times[-1] > since + 1 for times in self.times.values()), 60)
        # A partition that goes on may wait once more.
        time.sleep(2)
        found = []
        for times in self.times.values():
            later = [since, *(at for at in times if at >= since), time.monotonic()]
            found.append(max(b - a for a, b in pairwise(later)))
        return sorted(found)

    def check(self):
        """End it, and see that every record is answered once."""
        self._over.set()
        self._threads[0].join()
        wait_until(lambda: len(self.deployment.answers()) >= self.sent)
        answers = self.deployment.answers()
        assert len(answers) == len(set(answers)) == self.sent


def is_spread(workers):
    return all(len(worker.health().get("partitions", [])) == 1 for worker in workers)


@contextmanager
def at_work(broker):
    """Yield a load, what starts the worker of a number, and workers that share the load."""
    with ExitStack() as running, Load(broker) as load:

        def start(number):
            return running.enter_context(load.deployment.worker(settings={"worker.id": f"w{number}"}))

        workers = [start(number) for number in range(WORKERS)]
        wait_until(lambda: is_spread(workers), 90)
        yield load, start, workers


def test_a_worker_that_starts_again_holds_up_nobody_and_its_frozen_twin_costs_no_answer(broker):
    with at_work(broker) as (load, start, workers):
        joined = [worker.log().count("assigned: ") for worker in (workers[0], workers[3])]
        killed = time.monotonic()
        workers[1].kill()
        second = start(1)
        *others, own = load.waits(killed)
        assert own < OWN_SECONDS
        assert max(others) < OTHERS_SECONDS
        # One that does not answer is no longer waited for.
        stopped = time.monotonic()
        workers[2].process.send_signal(signal.SIGSTOP)
        twins = [workers[2], start(2)]
        *others, own = load.waits(stopped)
        assert own < OWN_SECONDS
        assert max(others) < OTHERS_SECONDS
        # No other worker had a rebalance at all.
        assert [worker.log().count("assigned: ") for worker in (workers[0], workers[3])] == joined
        # When the frozen one wakes it costs no answer either.
        workers[2].process.send_signal(signal.SIGCONT)
        wait_until(lambda: None in [worker.process.poll() for worker in twins] != [None, None], 60)
        (left,) = (worker for worker in twins if worker.process.poll() is None)
        wait_until(lambda: is_spread([workers[0], second, left, workers[3]]))
        load.check()


@pytest.mark.nightly
def test_a_process_that_its_supervisor_starts_again_holds_up_nobody(broker):
    began = time.monotonic()
    with Load(broker) as load, processes(load.deployment, WORKERS) as worker:
        pages = [worker.port + number for number in range(1, WORKERS + 1)]
        wait_until(lambda: is_owner(pages[0], WORKERS), 120)
        started = time.monotonic() - began
        wait_until(lambda: all(is_owner(page, 1) for page in pages), 120)
        killed = time.monotonic()
        os.kill(pids(worker)[-1], signal.SIGKILL)
        *others, own = load.waits(killed)
        # On a machine with little processor time most of it is the start of an interpreter.
        assert own < max(OWN_SECONDS, 2 * started)
        assert max(others) < OTHERS_SECONDS
        load.check()
