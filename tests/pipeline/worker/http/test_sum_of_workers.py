"""One page for several workers."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, parser
from prometheus_client.exposition import generate_latest
from pydantic import SecretStr
from resonance.pipeline.worker.http.pages import Pages
from resonance.pipeline.worker.http.sum_of_workers import LARGEST, SMALLEST, SumOfWorkers, add

from tests.brokers.jvm import free_port

TOKEN = "s3cret"  # noqa: S105


class Worker:
    """Pages that say what a test wants."""

    def __init__(self, partition):
        self.port = free_port()
        self.pages = None
        self.partition = partition
        self.problems = []
        self.registry = None

    def born(self, at, **values):
        self.registry = CollectorRegistry()
        Gauge("process_start_time_seconds", "Start.", registry=self.registry).set(at)
        Gauge("resonance_ready", "Ready.", registry=self.registry).set(1)
        Gauge("resonance_lag_records", "Lag.", ["partition"], registry=self.registry).labels(self.partition).set(3)
        Counter("resonance_commits_total", "Commits.", registry=self.registry).inc(values.get("commits", 0))
        seconds = Histogram("resonance_batch_seconds", "Batches.", registry=self.registry, buckets=(1.0, 2.0))
        for each in values.get("batches", ()):
            seconds.observe(each)
        return self

    async def live(self):
        return not self.problems, {"live": not self.problems, "problems": self.problems}

    async def ready(self):
        return not self.problems, {
            "ready": not self.problems,
            "state": "joining" if self.problems else "running",
            "problems": self.problems,
            "partitions": [self.partition],
            "records": 5,
            "send_seconds": 0.25,
            "seen": {self.partition: {"records": 5}},
        }

    async def metrics(self, accept):
        return generate_latest(self.registry), "text/plain; version=0.0.4"

    async def resume(self, partition):
        return [self.partition] if partition in (None, self.partition) else []

    async def start(self):
        self.pages = Pages(self, SecretStr(TOKEN))
        await self.pages.start("127.0.0.1", self.port)

    async def stop(self):
        await self.pages.stop()


def with_two(what):
    async def go():
        first, second = (Worker(f"in[{n}]") for n in (0, 1))
        first.born(100, commits=2, batches=[0.5])
        second.born(200, commits=5, batches=[0.5, 1.5])
        places = {str(n): f"http://127.0.0.1:{each.port}" for n, each in enumerate((first, second), 1)}
        await first.start()
        await second.start()
        try:
            return await what(SumOfWorkers(places, TOKEN), first, second)
        finally:
            await first.stop()
            await second.stop()

    return asyncio.run(go())


async def values(pages):
    page, _ = await pages.metrics("")
    families = list(parser.text_string_to_metric_families(page.decode()))
    assert len({family.name for family in families}) == len(families)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_both_pages_are_of_all_workers():
    async def look(pages, first, second):
        ready, shown = await pages.ready()
        assert ready
        assert shown["state"] == "running"
        assert shown["partitions"] == ["in[0]", "in[1]"]
        assert (shown["records"], shown["send_seconds"]) == (10, 0.5)
        assert set(shown["seen"]) == set(shown["partitions"])
        assert set(shown["workers"]) == {"1", "2"}
        second.problems = ["waiting for the consumer group to assign partitions"]
        ready, shown = await pages.ready()
        assert not ready
        assert shown["state"] == "joining"
        assert shown["problems"] == ["worker 2: waiting for the consumer group to assign partitions"]
        assert await pages.live() == (False, {"live": False, "problems": shown["problems"]})

    with_two(look)


def test_a_worker_that_is_away_is_said_with_its_reason():
    async def look(pages, first, second):
        await second.stop()
        assert (await pages.ready())[1]["problems"] == ["worker 2: it does not answer"]
        pages.absent["2"] = "it ended, and starts again in 4 s"
        ready, shown = await pages.ready()
        assert not ready
        assert shown["problems"] == ["worker 2: it ended, and starts again in 4 s"]
        assert shown["partitions"] == ["in[0]"]
        # The one that starts workers starts it again: no reason to restart all.
        assert (await pages.live())[0]
        assert (await values(pages))["resonance_ready",] == 0

    with_two(look)


def test_counters_are_added_and_never_fall():
    async def look(pages, first, second):
        found = await values(pages)
        assert found["resonance_commits_total",] == 7
        assert found["resonance_batch_seconds_bucket", "1.0"] == 2
        assert found["resonance_batch_seconds_count",] == 3
        assert found["resonance_ready",] == 1
        assert found["process_start_time_seconds",] == 100
        assert found["resonance_lag_records", "in[0]"] == found["resonance_lag_records", "in[1]"] == 3
        await second.stop()
        found = await values(pages)
        assert found["resonance_commits_total",] == 7
        assert ("resonance_lag_records", "in[1]") not in found
        await second.start()
        assert (await values(pages))["resonance_commits_total",] == 7, "it was silent only"
        second.born(300, commits=1)
        found = await values(pages)
        assert found["resonance_commits_total",] == 8
        assert found["resonance_batch_seconds_count",] == 3
        second.born(400, commits=1)
        assert (await values(pages))["resonance_commits_total",] == 9

    with_two(look)


def test_a_paused_partition_is_resumed_wherever_it_is():
    async def look(pages, first, second):
        assert await pages.resume("in[1]") == ["in[1]"]
        assert await pages.resume(None) == ["in[0]", "in[1]"]
        assert await pages.resume("in[7]") == []
        await first.stop()
        assert await pages.resume(None) == ["in[1]"]

    with_two(look)


@pytest.mark.parametrize("name", sorted(LARGEST | SMALLEST))
def test_what_has_no_sum_keeps_one_value(name):
    families = [
        family
        for value in (3, 1, 2)
        for family in parser.text_string_to_metric_families(f"# TYPE {name} gauge\n{name} {value}\n")
    ]
    [family] = add(families)
    assert [sample.value for sample in family.samples] == [3 if name in LARGEST else 1]
