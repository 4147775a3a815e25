"""Records of a file on their way to the partitions they would be produced to."""

from pathlib import Path

from resonance.pipeline.files.record_file import Columns, FileRecord
from resonance.pipeline.records import Record
from resonance.pipeline.replay.lanes import Routed, gather, pack, route, unpack


def test_records_come_out_of_a_frame_as_they_went_in() -> None:
    records = [
        FileRecord(b"\xff\n", b'{"a": 1}', 5),
        FileRecord(None, b"{}", None),
        FileRecord(b"", b'{"b": "\n"}', 7),
    ]
    routed = unpack(pack(Routed(3, 70, records)))
    assert routed == Routed(3, 70, [tuple(record) for record in records])
    assert routed.on("t") == [
        Record("t", 3, 70, 5, b"\xff\n", b'{"a": 1}'),
        Record("t", 3, 71, -1, None, b"{}"),
        Record("t", 3, 72, 7, b"", b'{"b": "\n"}'),
    ]


def test_records_without_keys_take_the_partitions_in_turn(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"".join(b'{"n": %d}\n' % number for number in range(5_001)))
    found: dict[int, list[Record]] = {0: [], 1: []}
    for part in route(file, Columns(), 2):
        found[part.partition] += part.on("t")
    for partition, log in found.items():
        assert [record.offset for record in log] == list(range(len(log)))
        assert [record.value for record in log] == [b'{"n": %d}' % (2 * i + partition) for i in range(len(log))]
    assert len(found[0]) + len(found[1]) == 5_001


def test_what_is_sent_together_is_what_was_routed_in_order(tmp_path: Path) -> None:
    path = tmp_path / "flows.jsonl"
    path.write_bytes(b"".join(b'{"key": "k%d", "x": %d}\n' % (i % 7, i) for i in range(9_000)))
    routed = list(route(path, Columns(key="key"), 3))
    gathered = list(gather(route(path, Columns(key="key"), 3), least=2_500))
    assert len(gathered) < len(routed)
    for partition in range(3):
        apart = [record for part in routed if part.partition == partition for record in part.records]
        parts = [part for part in gathered if part.partition == partition]
        assert [record for part in parts for record in part.records] == apart
        assert [part.first for part in parts] == [sum(len(p.records) for p in parts[:i]) for i in range(len(parts))]
