"""``POST /assign`` of a worker, over HTTP."""

import asyncio
import http.client
import json
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import orjson
import pytest
from faust.types import TP
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from resonance.pipeline.errors import RegistryError
from resonance.pipeline.repartition.placing import Placing
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.commits import Commits
from resonance.pipeline.worker.http.assignments import RecordAssignments
from resonance.pipeline.worker.http.page_client import signed
from resonance.pipeline.worker.http.pages import ContentOfWorker, Pages
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.transport.log_ends import LogEnd

from tests.brokers.jvm import free_port
from tests.pipeline.memory_deployment import KEYED
from tests.pipeline.streams import STAMP, TOPIC, points, records, settings, states, task, value_of
from tests.pipeline.task.test_scoring import without_path

LOG = records(points(310).tolist())
VALUE = LOG[300].value
BEARER = "t"


@pytest.fixture
def working():
    """A worker that has learned 300 records of the first of two partitions, and has the first alone."""
    worker = task()
    worker.process(LOG[:300])
    ends = {TP(TOPIC, 0): LogEnd(400, 410)}
    status = WorkerStatus("running", placing=Placing(settings(), 2))
    status.app = SimpleNamespace(_consumer=SimpleNamespace(ends=lambda: ends))
    status.processor = processor = Processor(Commits(None, {"dead_letters": "d"}, interval=1), done=print, failed=print)
    processor.commits.partitions = {TP(TOPIC, 0): AssignedPartition(worker, None, 306, 306, timestamp=STAMP)}
    processor.start()
    yield status, worker
    processor.stop()


def post(status, query="", body=VALUE, given=None, token="", signs=None, **headers):
    async def go():
        async def resume(partition):
            return []

        port = free_port()
        content = ContentOfWorker(status, CollectorRegistry(), resume)
        pages = Pages(content, SecretStr(token) if token else None, RecordAssignments(given or settings(), status))
        await pages.start("127.0.0.1", port)
        try:
            return await asyncio.to_thread(ask, port)
        finally:
            await pages.stop()

    def ask(port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        own = {} if signs is None else signed(token, "POST", f"http://127.0.0.1:{port}", f"/assign{signs}", body)
        connection.request("POST", f"/assign{query}", body, headers | own)
        answer = connection.getresponse()
        return answer.status, answer.read()

    return asyncio.run(go())


def test_a_record_has_the_bytes_of_its_assignment_and_the_models_learn_nothing(working, monkeypatch):
    status, worker = working
    monkeypatch.setattr("resonance.pipeline.worker.http.assignments.time.time", lambda: LOG[300].timestamp / 1000)
    before = states(worker)
    code, body = post(status, "?partition=0")
    assert (code, states(worker)) == (200, before)
    assert json.loads(body)["model"] == {
        **{"stream": "p0", "version": 1, "next": 305, "time": "2023-11-14T22:13:20.000Z", "behind": 94}
    }
    (expected,) = worker.process([LOG[300]._replace(offset=305)]).assignments
    assert without_path(expected.value) in body


@pytest.mark.parametrize(
    ("query", "body", "code", "text"),
    [
        ("", VALUE, 400, "name one of the partitions 0 to 1"),
        ("?partition=x", VALUE, 400, "partition = 'x': it is a number"),
        ("?partition=2", VALUE, 400, "features[2] is no partition of this deployment's input"),
        ("?partition=1", VALUE, 421, "features[1], which learns such a record, is not assigned to this worker"),
        ("?partition=0", b"{", 422, "not_json"),
        ("?partition=0", b"", 422, "not_json"),
        ("?partition=0", b" " * 1_000_001, 422, "record_too_large"),
        ("?partition=0", b" " * 1_100_000, 413, "exceeded"),
        ("?partition=0", value_of([1e200, 0.0, 0.0]), 422, "out_of_range"),
    ],
)
def test_what_cannot_be_answered_says_why(working, query, body, code, text):
    found, answer = post(working[0], query, body)
    assert (found, text in answer.decode()) == (code, True), answer


def test_a_stream_that_has_not_begun_has_no_answer(working):
    status, _ = working
    given = settings(stream="key")
    tp = TP(TOPIC, 0)
    status.placing = Placing(given, 1)
    keyed = task(given)
    keyed.process([record._replace(key=b"a") for record in LOG[:50]])
    status.processor.commits.partitions = {tp: AssignedPartition(keyed, None, 50, 50)}
    assert post(status, "?key=a", given=given)[0] == 200
    code, answer = post(status, "?key=b", given=given)
    assert (code, orjson.loads(answer)["refusal"]["class"]) == (404, "no_model")
    assert post(status, given=given)[0] == 422


def test_who_may_ask_is_as_of_the_other_pages(working):
    status, _ = working
    assert post(status, "?partition=0", Origin="http://example.org")[0] == 403
    assert post(status, "?partition=0", token=BEARER)[0] == 401
    assert post(status, "?partition=0", token=BEARER, Authorization="Bearer t")[0] == 200
    assert post(status, "?partition=0&key=%C3%A4", token=BEARER, signs="?partition=0&key=%C3%A4")[0] == 200
    # Signed is the whole question.
    assert post(status, "?partition=0", token=BEARER, signs="?partition=1")[0] == 401
    assert post(status, "?partition=0", token=BEARER, signs="")[0] == 401


def test_a_worker_that_does_not_run_and_one_without_whole_trees_say_so():
    code, answer = post(WorkerStatus("restoring"), "?partition=0")
    assert (code, b"restoring 0 partitions" in answer) == (503, True)
    keyed = settings(**KEYED)
    assert post(WorkerStatus("running"), "?partition=0", given=keyed)[0] == 501


def test_an_error_of_the_scoring_does_not_end_the_worker(working):
    status, worker = working
    worker.score = lambda records: 1 / 0
    answer: Future = status.processor.score(TP(TOPIC, 0), LOG[300])
    assert isinstance(answer.result(5), ZeroDivisionError)
    del worker.score
    assert status.processor.score(TP(TOPIC, 0), LOG[300]).result(5)[0].assignment


def test_while_the_registry_is_away_other_pages_are_served_and_the_answer_says_so(working, monkeypatch):
    status, _ = working
    threads = []

    def place(placing, record):
        threads.append(threading.current_thread())
        raise RegistryError("the schema registry does not answer")

    monkeypatch.setattr(Placing, "place", place)
    code, answer = post(status, "?partition=0")
    assert (code, orjson.loads(answer)) == (503, {"error": "the schema registry does not answer"})
    assert threads[0] is not threading.main_thread()


def test_the_schema_of_a_record_is_looked_up_before_the_processor_has_it(working, monkeypatch):
    status, worker = working
    worker.score = lambda records: pytest.fail("the processor has it")

    def ask(registry, number):
        raise RegistryError(f"no registry answers for {number}")

    monkeypatch.setattr("resonance.pipeline.registry.client.SchemaRegistry.schema", ask)
    given = settings(input__format="avro", schema_registry__url="http://127.0.0.1:9")
    code, answer = post(status, "?partition=0", b"\0\0\0\0\7x", given)
    assert (code, orjson.loads(answer)) == (503, {"error": "no registry answers for 7"})


def test_another_fault_is_not_called_one_of_the_partition(working, monkeypatch):
    monkeypatch.setattr(Placing, "place", lambda placing, record: int("x"))
    code, answer = post(working[0], "?partition=0")
    assert (code, b"the log of this worker says" in answer, b"it is a number" in answer) == (500, True, False)


def test_what_comes_while_many_are_answered_is_refused_unread_and_what_is_given_up_is_not_scored(working, monkeypatch):
    status, worker = working
    monkeypatch.setattr("resonance.pipeline.worker.http.assignments.AT_ONCE", 1)
    held, go_on, scored = threading.Event(), threading.Event(), []
    worker.score = scored.append

    async def go():
        port = free_port()
        assignments = RecordAssignments(settings(), status)
        pages = Pages(ContentOfWorker(status, CollectorRegistry(), print), None, assignments)
        await pages.start("127.0.0.1", port)
        try:
            # The processor does something else meanwhile.
            status.processor._inbox.call(lambda: (held.set(), go_on.wait(10)))
            await asyncio.to_thread(held.wait, 5)
            begun = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            begun.request("POST", "/assign?partition=0", VALUE)
            await until(assignments.room.locked)
            other = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            # Its record never comes.
            other.request("POST", "/assign?partition=0", headers={"Content-Length": "100"})
            answer = await asyncio.to_thread(other.getresponse)
            other.close()
            await until(lambda: not status.processor._inbox.empty)
            begun.close()
            await until(lambda: not assignments.room.locked())
            go_on.set()
            await asyncio.wrap_future(status.processor._inbox.call(lambda: None))
            return answer.status, answer.headers["Retry-After"]
        finally:
            go_on.set()
            await pages.stop()

    async def until(condition):
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.01)

    assert asyncio.run(go()) == (503, "1")
    assert scored == []
