"""Records of a file on their way to the partitions they would be produced to."""

import pytest
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.records import Record
from resonance.pipeline.replay.file_partitions import Routed, gather, pack, route, unpack


@pytest.mark.parametrize(
    ("keys", "timestamps"),
    [
        *(([b"a", b"", b"c"], [None, None, None]), ([b"\xff", b"b", b"c"], [5, 0, 7])),
        *(([b"\xff\n", None, b""], [5, None, 7]), ([None, None, None], [None, None, 1])),
    ],
    ids=["plain", "times", "odd keys", "no keys"],
)
def test_records_come_out_of_a_frame_as_they_went_in(keys, timestamps):
    values = [b'{"a": 1}', b"{}", b'{"b": "\\n"}']
    routed = Routed(3, 70, keys, values, timestamps)
    assert unpack(pack(routed)) == routed
    assert unpack(pack(routed)).on("t") == [
        Record("t", 3, 70 + at, -1 if timestamps[at] is None else timestamps[at], keys[at], values[at])
        for at in range(3)
    ]


@pytest.mark.parametrize("size", [1, 2])
def test_a_frame_may_be_small(size):
    for keys in ([b""] * size, [b"k"] * size, [None] * size):
        routed = Routed(0, 0, list(keys), [b"{}"] * size, [None] * size)
        assert unpack(pack(routed)) == routed


def test_records_without_keys_take_the_partitions_in_turn(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"".join(b'{"n": %d}\n' % number for number in range(5_001)))
    found = {0: [], 1: []}
    for part in route(file, Columns(), 2):
        found[part.partition] += part.on("t")
    for partition, log in found.items():
        assert [record.offset for record in log] == list(range(len(log)))
        assert [record.value for record in log] == [b'{"n": %d}' % (2 * i + partition) for i in range(len(log))]
    assert len(found[0]) + len(found[1]) == 5_001


def test_what_is_sent_together_is_what_was_routed_in_order(tmp_path):
    path = tmp_path / "flows.jsonl"
    path.write_bytes(b"".join(b'{"key": "k%d", "x": %d}\n' % (i % 7, i) for i in range(9_000)))
    routed = list(route(path, Columns(key="key"), 3))
    gathered = list(gather(route(path, Columns(key="key"), 3), least=2_500))
    assert len(gathered) < len(routed)
    for partition in range(3):
        apart = [record for part in routed if part.partition == partition for record in part.on("t")]
        parts = [part for part in gathered if part.partition == partition]
        assert [record for part in parts for record in part.on("t")] == apart
