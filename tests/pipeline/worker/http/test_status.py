"""The health page shows of a partition what its task has counted."""

import threading
from types import SimpleNamespace

import orjson
from faust.types import TP
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.commits import Commits
from resonance.pipeline.worker.http.status import HeldRecords, WorkerStatus, described
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.transport.log_ends import LogEnd

from tests.pipeline.streams import points, records, run, settings, task
from tests.pipeline.task.test_partition_task import array_records, array_settings

WRITER = ChangelogWriter(Identity("pipe", ("features",), "features", "id-1", 1, "caea", "1"), 0)


def test_everything_that_was_counted_is_shown():
    rows = points(400).tolist()
    rows[2], rows[390] = rows[2][:2], [1e9, 1.0, 1.0]
    log = array_records(rows)
    log[5] = log[5]._replace(value=None)
    log[7], log[100] = log[7]._replace(value=b"{"), log[100]._replace(value=b'{"features": [1e200, 1, 1]}')
    worker = task(array_settings())
    partition = AssignedPartition(worker, WRITER, 0, -1)
    assert (described(partition)["outside_range"], described(partition)["replay_from"]) == (None, None)
    run(worker, log)
    partition.position = log[-1].offset + 1
    list(partition.writer.messages(worker, partition.position, -1, everything=True))
    shown = described(partition)
    assert 0 < shown.pop("outside_range") < 1
    assert shown == {
        "position": 1198,
        "answered": 0,
        "replay_from": 1198,
        "records": 400,
        "skipped": 1,
        "dead_letters": {"wrong_dimension": 1, "not_json": 1, "out_of_range": 1},
        "streams": 1,
    }
    assert orjson.dumps(shown)


def test_it_can_be_asked_for_while_the_task_learns():
    worker = task(settings(stream="key"))
    log = records(points(800).tolist(), keys=[b"%d" % i for i in range(800)])
    learning = threading.Thread(target=run, args=(worker, log, 10))
    learning.start()
    while learning.is_alive():
        described(AssignedPartition(worker, WRITER, 0, -1))
    assert described(AssignedPartition(worker, WRITER, 0, -1))["streams"] == 800


def running(ends, silent=()):
    """Status of a worker that has answered the first ten records of two partitions."""
    processor = Processor(Commits(None, {"dead_letters": "d"}, interval=1), done=print, failed=print)
    at = [TP("in", 0), TP("in", 1)]
    processor.commits.partitions = {tp: AssignedPartition(task(), WRITER, 10, 10) for tp in at}
    status = WorkerStatus("running", assigned=at, processor=processor)
    consumer = SimpleNamespace(
        polled=None, flow_active=False, has_coordinator=True, ends=lambda: ends, silent=lambda: list(silent)
    )
    status.app = SimpleNamespace(rebalancing=False, unassigned=False, _consumer=consumer)
    return status


def test_what_waits_is_shown_and_what_cannot_be_read_as_well():
    status = running({TP("in", 0): LogEnd(10, 40), TP("in", 1): LogEnd(12, 12)})
    status.held_back = {TP("in", 0): HeldRecords(10, 0.0, "in[0]@10: 30 records cannot be read")}
    ready, shown = status.ready()
    assert (ready, shown["waiting"], shown["unstable"]) == (True, 32, 30)
    assert shown["warnings"] == ["in[0]@10: 30 records cannot be read"]
    status.enter("joining")
    assert (status.ready()[1]["waiting"], status.ready()[1]["unstable"]) == (None, None)


def test_a_lag_that_is_unknown_is_not_zero():
    ready, shown = running({TP("in", 0): LogEnd(10, 10)}, [TP("in", 1)]).ready()
    assert (ready, shown["waiting"]) == (False, None)
    assert shown["problems"] == [
        "in[1]: no broker has answered for 10 s, so that it is not known what waits there; look at the partition's "
        "leader"
    ]
