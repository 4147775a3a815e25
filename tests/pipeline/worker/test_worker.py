"""What a worker decides without a broker."""

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from faust.types import TP
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, DeliveryError, DeniedError, MismatchError
from resonance.pipeline.kafka.log_reader import RestoreCancelledError
from resonance.pipeline.kafka.producer import producer_settings
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.records import Record
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task
from resonance.pipeline.topics.start_check import check_delivery
from resonance.pipeline.worker import before_joining, shutdown
from resonance.pipeline.worker import worker as process
from resonance.pipeline.worker.delivery import gone_workers
from resonance.pipeline.worker.transport.chunk import Membership

from tests.pipeline import streams
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.streams import STAMP, TOPIC, value_of

SETTINGS = Settings.of({"input.topics": ["in"], "name": "shop"})


@pytest.mark.parametrize(
    ("given", "refused", "remedy"),
    [
        ({}, "", 'accepts transactions and does not keep them; set "at_least_once", or use Kafka'),
        ({"stream": "topic"}, "stream = topic", "use Kafka, or .*not re-keyed: not topic, but partition or key"),
        ({"stream": "field:a"}, "stream = field:a", "use Kafka, or .*not re-keyed: not field:a, but partition or key"),
        (
            {"stream": "partition", "hierarchy": "keyed", "engine.name": "hcaea"},
            "hierarchy = keyed",
            'use Kafka, or hierarchy = "local" with "at_least_once"',
        ),
    ],
)
def test_exactly_once_is_refused_on_the_embedded_broker_with_a_remedy_that_the_settings_accept(given, refused, remedy):
    own = {"input.topics": ["in"], "name": "shop", **given}
    check_delivery(Settings.of(own), Deployment(1, {}))
    with pytest.raises(ConfigurationError, match=f"{'does not keep them; ' * bool(given)}{remedy}"):
        check_delivery(Settings.of(own), Deployment(4, {}, embedded=True))
    other = own | {"delivery.mode": "at_least_once"}
    if refused:
        with pytest.raises(ConfigurationError, match=refused):
            Settings.of(other)
        other |= {"hierarchy": "local"} if "hierarchy" in given else {"stream": "key"}
    check_delivery(Settings.of(other), Deployment(4, {}, embedded=True))


@pytest.mark.parametrize("taken", [1, 1_048_588, 2**31 - 1])
def test_whatever_a_topic_takes_a_producer_can_be_made(taken):
    Producer(producer_settings({"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, message_bytes={"out": taken}))


def test_partitions_that_were_added_are_seen_with_the_next_assignment_and_answered_then(monkeypatch):
    given = streams.settings(stream="topic")
    ids, checked, tasks = {TOPIC: "1", ROUTES: "2"}, [], []
    (message,) = (
        make_task(given, TOPIC, 3, TaskContext(routes=3))
        .process([Record(TOPIC, 3, 0, STAMP, None, value_of([1, 2, 3]))])
        .routes
    )
    route = Record(ROUTES, message.partition, 0, STAMP, message.key, message.value, message.headers)
    worker = process.Worker(given)
    worker._source = before = DeploymentContext.of(given, {}, Deployment(2, ids, routes=3))
    worker._delivery = SimpleNamespace(start=lambda: None)

    def restore_partitions(source, assigned, make_task, *_):
        tasks.append(make_task(*assigned[0]))
        raise RestoreCancelledError

    monkeypatch.setattr(process, "end_others", lambda *_: None)
    monkeypatch.setattr(process, "restore_partitions", restore_partitions)
    for count in (2, 4):
        now = Deployment(count, ids, routes=3)
        monkeypatch.setattr(before_joining, "read_logs", lambda *_, now=now: now)
        monkeypatch.setattr(before_joining, "check_start", lambda *_, now=now, **how: checked.append(how) or now)
        with pytest.raises(RestoreCancelledError):
            asyncio.run(worker._restore(Membership(1, "m", frozenset({TP(ROUTES, message.partition)}))))
        assert (worker._source is before) == (count == 2)
    assert worker._source.deployment.partitions == worker._source.identities[TOPIC].partitions == 4
    assert checked == [{"create": False}], "what the outputs lack is named"
    with pytest.raises(BrokerError, match=r"names features\[3\]@0, and that topic had 2 partitions"):
        tasks[0].process([route])
    assert [answer.partition for answer in tasks[1].process([route]).assignments] == [3]


def test_where_no_broker_answers_what_others_have_left_open_is_left_alone(monkeypatch, caplog):
    monkeypatch.setattr(gone_workers, "ANSWER_SECONDS", 0.05)
    given = Settings.of({"input.topics": ["in"], "broker.bootstrap": "127.0.0.1:1"})
    process.end_others(given, Deployment(1, {"in": "1"}), [("in", 0)], threading.Event())
    assert "what a worker that is gone has left open was not ended" in caplog.text


def test_kernels_load_while_the_broker_is_asked(monkeypatch):
    loaded, given = threading.Event(), Deployment(4, {TOPIC: "1"})
    monkeypatch.setattr(before_joining, "compile_engine", lambda settings: loaded.set())
    monkeypatch.setattr(before_joining, "check_before_joining", lambda *_: loaded.wait(60) or pytest.fail("one by one"))
    monkeypatch.setattr(before_joining, "check_start", lambda *_, create: given)
    worker = process.Worker(streams.settings(stream="partition"))
    assert worker._check() is given
    assert worker._source.deployment is given


def test_kernels_that_cannot_be_compiled_end_the_start(monkeypatch):
    def fail(settings):
        raise ConfigurationError("no kernels")

    monkeypatch.setattr(before_joining, "compile_engine", fail)
    monkeypatch.setattr(before_joining, "check_before_joining", lambda *_: None)
    monkeypatch.setattr(before_joining, "check_start", lambda *_, create: Deployment(4, {TOPIC: "1"}))
    with pytest.raises(ConfigurationError, match="no kernels"):
        process.Worker(streams.settings(stream="partition"))._check()


def done():
    """What the processor answers once it has done something."""
    answer = Future()
    answer.set_result(None)
    return answer


async def test_a_worker_that_stops_leaves_its_group_as_soon_as_everything_is_committed():
    order = []

    async def leave_group():
        order.append("left")

    worker = process.Worker(SETTINGS)
    worker._app = SimpleNamespace(_consumer=SimpleNamespace(leave_group=leave_group), consumer=SimpleNamespace())
    worker._app.consumer.stop_flow = lambda: order.append("no more records")
    worker._processor = SimpleNamespace(close=lambda **_: order.append("committed") or done())
    await worker.before_stop()
    assert order == ["no more records", "committed", "left"]


def test_topics_that_do_not_fit_yet_are_looked_at_again(monkeypatch, caplog):
    given, ids = streams.settings(stream="topic"), {TOPIC: "1", ROUTES: "2"}
    source = DeploymentContext.of(given, {}, Deployment(2, ids, routes=3))
    left = [BrokerError("one topic has 2, the other 4"), BrokerError("no answer"), Deployment(4, ids, routes=3)]

    def look(*_):
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(before_joining, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(before_joining, "read_logs", look)
    monkeypatch.setattr(before_joining, "check_start", lambda *_, **__: Deployment(4, ids, routes=3))
    assert before_joining.look_again(source, threading.Event()).deployment.partitions == 4
    assert ["the other 4" in record.getMessage() for record in caplog.records].count(True) == 1
    left[:] = [BrokerError("no answer")] * 2
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(RestoreCancelledError):
        before_joining.look_again(source, cancelled)
    with monkeypatch.context() as patch, pytest.raises(BrokerError, match="no answer"):
        patch.setattr(DeploymentContext, "patience", -1.0)
        before_joining.look_again(source, threading.Event())
    left[:] = [DeniedError("no right")]
    with pytest.raises(DeniedError):
        before_joining.look_again(source, threading.Event())


@pytest.fixture
def stopped(monkeypatch):
    """A worker that is to stop, whose processor answers as given and whose Faust needs some seconds more."""
    monkeypatch.setattr(shutdown, "STOP_SECONDS", shutdown.LEAVE_SECONDS + 0.05)

    def stop(closing, faust_seconds=0.0, *, brokers=True):
        async def run():
            worker = process.Worker(SETTINGS)
            worker._loop = asyncio.get_running_loop()

            async def stop_faust():
                await worker.before_stop()
                await asyncio.sleep(faust_seconds)

            consumer = SimpleNamespace(stop_flow=lambda: None, has_coordinator=brokers)
            worker._app = SimpleNamespace(stop=stop_faust, consumer=consumer, _consumer=consumer)
            worker._status.app = worker._app
            worker._processor = SimpleNamespace(close=lambda **_: closing, stop=lambda: None)
            await worker._end()
            return worker._failure

        return asyncio.run(run())

    return stop


def test_a_last_commit_that_does_not_end_is_a_failure(stopped):
    failure = stopped(Future())
    assert isinstance(failure, DeliveryError)
    assert "the last commit did not end within" in str(failure)


def test_without_a_broker_the_last_commit_is_given_up_soon(stopped, monkeypatch):
    monkeypatch.setattr(shutdown, "STOP_SECONDS", 1000)
    monkeypatch.setattr(shutdown, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(shutdown, "AWAY_LOOK_SECONDS", 0.02)
    failure = stopped(Future(), brokers=False)
    assert isinstance(failure, DeliveryError)
    assert "a restart goes on at the last one that does, and learns again what came after it" in str(failure)


def test_a_commit_that_was_given_up_is_not_waited_for_again(monkeypatch):
    worker = process.Worker(SETTINGS)
    gave_up = []

    async def nothing(*_):
        pass

    async def end():
        worker._ending.gave_up, worker._failure = True, DeliveryError("late")

    async def run():
        worker._stop_requested.set()
        await worker._work()

    async def checked():
        return Deployment(1, {})

    worker._processor = SimpleNamespace(start=lambda: None, give_up=gave_up.append)
    worker._app = SimpleNamespace(start=nothing, _consumer=None)
    worker._watch = SimpleNamespace(start=lambda: None, explained=lambda error: error)
    for name, do in (("_checked", checked), ("_build", lambda _: None), ("_end", end)):
        monkeypatch.setattr(worker, name, do)
    with pytest.raises(DeliveryError, match="late"):
        asyncio.run(run())
    assert gave_up == []


def test_a_last_commit_that_fails_is_the_workers_failure(stopped):
    closing = Future()
    closing.set_exception(DeliveryError("no"))
    assert stopped(closing) is closing.exception()


def test_a_stop_that_only_faust_delays_is_none_and_the_good_bye_is_short_once_everything_is_committed(
    stopped, monkeypatch
):
    assert stopped(done(), faust_seconds=10) is None
    monkeypatch.setattr(shutdown, "STOP_SECONDS", 1000)
    monkeypatch.setattr(shutdown, "GOODBYE_SECONDS", 0.05)
    assert stopped(done(), faust_seconds=900) is None


async def test_a_revoke_while_the_delivery_starts_ends_the_restore(monkeypatch):
    def restore_partitions(*args):
        raise AssertionError("a restore for partitions that are no longer ours")

    monkeypatch.setattr(process, "restore_partitions", restore_partitions)
    worker = process.Worker(SETTINGS)
    loop = asyncio.get_running_loop()
    closed = done()
    worker._processor = SimpleNamespace(close=lambda **_: closed, partitions={})
    worker._source = None

    def start():
        asyncio.run_coroutine_threadsafe(worker._before_revoke(False), loop).result(5)

    worker._delivery = SimpleNamespace(start=start)
    with pytest.raises(RestoreCancelledError):
        await worker._restore(Membership(1, "m", frozenset({TP("in", 0)})))
    assert worker._cancelled.is_set()


@pytest.mark.parametrize("lost", [False, True])
async def test_models_are_kept_of_partitions_that_were_closed_and_not_of_lost_ones(lost):
    worker, closes = process.Worker(SETTINGS), []
    closed = done()
    held = {TP("in", 0): object()}
    worker._processor = SimpleNamespace(close=lambda **how: closes.append(how) or closed, partitions=held)
    await worker._before_revoke(lost)
    assert closes == [{"everything": False, "lost": lost}]
    assert worker._kept == ({} if lost else held)
    assert worker._failure is None


def test_a_restore_that_another_rebalance_replaced_leaves_no_deployment_behind(monkeypatch):
    worker = process.Worker(SETTINGS)
    worker._source = before = DeploymentContext.of(SETTINGS, {}, Deployment(1, {"in": "1"}))
    worker._delivery = SimpleNamespace(start=lambda: None)
    monkeypatch.setattr(process, "end_others", lambda *_: None)
    monkeypatch.setattr(process, "restore_partitions", lambda *_: pytest.fail("it restores"))

    def look_again(*_):
        worker._rebalances += 1
        return replace(before, client={})

    monkeypatch.setattr(process, "look_again", look_again)
    with pytest.raises(RestoreCancelledError):
        asyncio.run(worker._restore(Membership(1, "m", frozenset({TP("in", 0)}))))
    assert worker._source is before


@pytest.mark.parametrize(
    ("changed", "seconds", "ordered"),
    [
        ({}, 0.07, ()),
        ({"delivery.mode": "at_least_once"}, 0.015, ()),
        ({"stream": "topic", "input.topics": ["in", "more"]}, 0.07, ("in", "more")),
        ({"hierarchy": "keyed", "engine.name": "hcaea", "stream": "key"}, 0.07, ()),
    ],
)
async def test_records_gather_where_a_round_is_a_transaction_and_are_in_order_before_they_are_routed(
    changed, seconds, ordered
):
    given = Settings.of({"input.topics": ["in"], "name": "shop", **changed})
    worker = process.Worker(given)
    worker._memory, worker._source = (
        MemoryBudget(10**9),
        DeploymentContext.of(given, {}, Deployment(1, dict.fromkeys(given.input.topics, "1"))),
    )
    worker._build(worker._source.deployment)
    options = worker._app.consumer.options
    assert (options.gather_seconds, options.in_time_order) == (seconds, ordered)


def stopped_while_it_checks(monkeypatch, check, recovering=False):
    """Run a worker that is to stop while it checks; return why it ended, or its error, and its state."""

    async def run():
        worker = process.Worker(SETTINGS)
        if recovering:
            worker._status.enter("recovering")
        monkeypatch.setattr(worker, "_check", lambda: check(worker))
        asyncio.get_running_loop().call_later(0.05, worker._stop, "SIGTERM")
        return (await asyncio.gather(worker._work(), return_exceptions=True))[0], worker

    return asyncio.run(run())


def test_a_stop_does_not_wait_for_a_compilation(monkeypatch):
    compiled = threading.Event()

    def check(worker):
        # The end of the test's loop waits for its threads, that of the process does not.
        assert worker._cancelled.wait(20)
        threading.Timer(0.2, compiled.set).start()
        compiled.wait()
        worker._status.enter("joining")

    started = process.Worker._checked

    async def checked(worker):
        found = await started(worker)
        assert not compiled.is_set()
        return found

    monkeypatch.setattr(process.Worker, "_checked", checked)
    why, worker = stopped_while_it_checks(monkeypatch, check)
    assert (why, worker._status.phase) == ("SIGTERM", "stopping")


def test_a_stop_waits_until_what_is_repaired_is_aborted(monkeypatch):
    aborted = []

    def check(worker):
        assert worker._cancelled.wait(20)
        aborted.append(True)
        raise DeliveryError("not recovered")

    why, _ = stopped_while_it_checks(monkeypatch, check, recovering=True)
    assert aborted and isinstance(why, DeliveryError)


@pytest.mark.parametrize(
    ("partition", "expected"),
    [(None, ["a[0]", "a[1]", "b[1]"]), ("1", ["a[1]", "b[1]"]), ("b[1]", ["b[1]"]), ("b[0]", []), ("b", [])],
)
def test_paused_partitions_go_on_by_name_or_number(partition, expected):
    wanted = []

    def resume(chosen):
        wanted.extend(chosen)
        return done()

    paused = {TP("b", 1), TP("a", 1), TP("a", 0)}
    processor = SimpleNamespace(pauses=SimpleNamespace(paused=paused), resume=resume)
    worker = SimpleNamespace(_status=SimpleNamespace(processor=processor), _processor=processor)
    assert asyncio.run(process.Worker._resume(worker, partition)) == expected
    assert [f"{tp.topic}[{tp.partition}]" for tp in wanted] == expected


def test_an_assignment_of_nothing_is_ready_once_the_topics_are_known_to_be_there(caplog):
    caplog.set_level("INFO")
    worker, answers, phases = process.Worker(SETTINGS), [MismatchError("topic in was deleted"), None, None], []

    def wait(seconds):
        phases.append(worker._status.phase)
        if (error := answers.pop(0)) is not None:
            raise error

    worker._watch = SimpleNamespace(wait=wait)
    worker._source = DeploymentContext.of(SETTINGS, {}, Deployment(1, {"in": "1"}))
    worker._app = SimpleNamespace(consumer=SimpleNamespace(missing_topics=["in"]))
    worker._status.enter("joining")
    with pytest.raises(MismatchError, match="was deleted"):
        asyncio.run(worker._restore(Membership(1, "m", frozenset())))
    # A broker that has just begun does not know its topics yet: the leader of the group could assign nothing of them.
    asyncio.run(worker._restore(Membership(1, "m", frozenset())))
    assert (worker._status.phase, caplog.text) == ("joining", "")
    worker._app.consumer.missing_topics.clear()
    asyncio.run(worker._restore(Membership(1, "m", frozenset())))
    assert (phases, worker._status.phase) == (["joining"] * 3, "running")
    assert "more workers than" in caplog.text
