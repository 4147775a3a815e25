"""The health page shows of a partition what its task has counted."""

import threading

import orjson
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.http.status import described

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
        "replay_from": 1198,
        "records": 400,
        "skipped": 1,
        "dead_letters": {"wrong_dimension": 1, "not_json": 1, "out_of_range": 1},
        "streams": 1,
    }
    assert orjson.dumps(shown)


def test_it_can_be_asked_for_while_the_task_learns():
    worker = task(settings(stream="key"))
    log = records(points(3000).tolist(), keys=[b"%d" % i for i in range(3000)])
    learning = threading.Thread(target=run, args=(worker, log, 10))
    learning.start()
    while learning.is_alive():
        described(AssignedPartition(worker, WRITER, 0, -1))
    assert described(AssignedPartition(worker, WRITER, 0, -1))["streams"] == 3000
