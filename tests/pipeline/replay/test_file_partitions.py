"""Records of a file on their way to the partitions they would be produced to."""

from resonance.pipeline.files.rows import Columns
from resonance.pipeline.replay.file_partitions import route

from tests.pipeline.streams import settings


def test_records_without_keys_take_the_partitions_in_turn(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"".join(b'{"n": %d}\n' % number for number in range(5_001)))
    found = {0: [], 1: []}
    for part in route(settings(stream="partition"), [file], Columns(), 2):
        found[part[0].partition] += part
    for partition, log in found.items():
        assert [record.offset for record in log] == list(range(len(log)))
        assert [record.value for record in log] == [b'{"n": %d}' % (2 * i + partition) for i in range(len(log))]
    assert len(found[0]) + len(found[1]) == 5_001
