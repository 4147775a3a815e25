"""A worker warns once of settings that name parts which no record has."""

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.worker.absent_paths import FEWEST, MOST, AbsentPaths


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("input.id_path", "idd", "input.id_path names what no record has: idd (did you mean id?); it has id, at, x"),
        (
            "input.time_path",
            "att",
            "input.time_path names what no record has: att (did you mean at?); it has id, at, x",
        ),
        ("output.include", "id,nte", "output.include names what no record has: nte; it has id, at, x"),
        ("input.id_path", "id", ""),
        ("input.format", "float32", ""),
    ],
)
def test_a_path_that_the_first_records_lack_is_named_once(caplog, setting, value, said):
    given = {"input.topics": ["t"], "input.features": "x", "input.dimension": 1, setting: value}
    absent = AbsentPaths(Settings.of(given))
    odd = (b"{", b'{"id": 1, "at": ' + 1_010 * b'{"a": ' + b"2" + 1_011 * b"}")
    records = [Record("t", 0, n, 0, None, [*odd, b'{"id": 1, "at": 2, "x": [3]}'][min(n, 2)]) for n in range(FEWEST)]
    absent.look("t.routes", records)
    absent.look("t", records)
    assert not caplog.records
    for _ in range(2):
        absent.look("t", records)
    wanted = [f"in the first {FEWEST} records: {said}"] if said else []
    assert [each.getMessage() for each in caplog.records] == wanted


def test_what_is_no_object_is_not_looked_at_for_ever(caplog):
    absent = AbsentPaths(Settings.of({"input.topics": ["t"], "input.features": ["x"], "input.id_path": "idd"}))
    for value, count in ((b"[1]", MOST), (b'{"x": 1}', FEWEST)):
        absent.look("t", [Record("t", 0, n, 0, None, value) for n in range(count)])
    assert not caplog.records
