"""What is wrong in a file is named with its line, or with what cannot be written, and what can be done."""

import gzip
import sys

import orjson
import pyarrow
import pytest
from pyarrow import parquet
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.csv_rows import CsvRows
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import BadRow, Columns

from tests.pipeline.files.written import records, values, written


def test_parquet_columns_that_json_cannot_say_are_refused(tmp_path):
    parquet.write_table(pyarrow.table({"x": [1], "raw": [b"\x00"]}), tmp_path / "a.parquet")
    with pytest.raises(ConfigurationError, match=r"column raw is of type binary.*--map, such as x"):
        records(tmp_path / "a.parquet")
    assert values(tmp_path / "a.parquet", members={"x": "x"}) == [{"x": 1}]


def test_without_pyarrow_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "resonance.pipeline.files.parquet_rows", raising=False)
    path = written(tmp_path, "a.parquet", "PAR1")
    with pytest.raises(ConfigurationError, match=r"pip install 'resonance-streams\[parquet\]'"), RecordFile(path):
        pass


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("a.jsonl", '{"a": 1}\n\n{"a": \n', "line 3", "not JSON"),
        ("a.jsonl", '{"a": 1}\n[1]\n', "line 2", r"not a JSON object, but \[1\]"),
        ("a.csv", 'a,b\n1,2\n"x\ny",2\n1,2,3\n', "line 5", "3 cells where the header has 2"),
        ("a.csv", 'a,b\n1,2\n"x" y,2\n1,2\n', "line 3", "not CSV"),
        ("a.csv", b"a,b\n1,x\n1,\xe4\n", "line 3", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_can_be_skipped(tmp_path, name, content, line, reason):
    path = written(tmp_path, name, content)
    with pytest.raises(InputFileError, match=f"{name}, {line}: {reason}.*--skip-bad"):
        records(path)
    if "array" in reason:
        return
    with RecordFile(path, Columns(skip_bad=True)) as file:
        assert all(file.batches())
        assert file.skipped == 1


def test_a_quote_that_nothing_closes_is_named_with_what_it_hides(tmp_path):
    path = written(tmp_path, "a.csv", 'id,n\nr0,0\n"r1,1\nr2,2\n')
    said = r"a.csv, line 3: not CSV .*; is a quote not closed there\? It is read up to line 4"
    with pytest.raises(InputFileError, match=said):
        records(path)
    with RecordFile(path, Columns(skip_bad=True)) as file:
        found = [orjson.loads(record.value) for batch in file.batches() for record in batch]
        assert (found, file.skipped) == ([{"id": "r0", "n": 0}], 1)


def test_lines_are_counted_behind_cells_of_several_lines(tmp_path):
    path = written(tmp_path, "a.csv", 'id,n\n"r1\nx",1\nr3,3,3\n"r4\n5",4,4\n"r6"6,6\nr7,7\n')
    rows = [row for batch in CsvRows(path.open("rb"), path, Columns()).batches() for row in batch]
    bad = [(row.line, row.reason) for row in rows if isinstance(row, BadRow)]
    assert [line for line, _ in bad] == [4, 5, 7]
    assert "(lines 5 to 6)" in bad[1][1]
    assert len(rows) == 5


def test_a_bad_time_is_a_bad_line(tmp_path):
    path = written(tmp_path, "a.csv", "t,x\nnoon,1\n")
    with pytest.raises(InputFileError, match=r"line 2: 'noon' is no time.*2026-01-31T12:00:00Z"):
        records(path, time="t")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        *(("a.csv", "", "is empty"), ("a.jsonl", "[[1], [2]]\n", "line 1: not a JSON object, but")),
        ("a.csv", "1,2\n3,4\n", "line 1: 1, 2 stand where the names .* such as --names c1..c2"),
        ("a.txt", "1  1 .5  \n1 12 .6  \n", "line 1: 1, 1, .5 stand where the names .* such as --names c1..c3"),
        ("a.csv", "m01,4.5,7\nm02,4.6,8\n", "line 1: m01, 4.5, 7 stand where"),
        ("a.csv", "0,tcp,0,181\n0,udp,1,17\n", "line 1: 0, tcp, 0, 181 stand where"),
        ("a.csv", b"\xe4,b\n1,2\n", "header is not UTF-8, but probably windows-1252; .*: iconv -f windows-1252 -t"),
        (
            "a.csv",
            b"a,b\n1,2\n\xe4,2\n",
            "line 3: not UTF-8, but probably windows-1252; convert it: iconv -f windows-1252 -t",
        ),
        ("a", b"\x93NUMPY", "a is an array of NumPy; let its name end in .npy"),
        ("a.csv", "功率,b\n1,2\n".encode("gbk"), "header is not UTF-8, but probably gbk; .*: iconv -f gbk -t utf-8 "),
        *(("a.csv", b"PK\3\4xxxx", "a zip file or an Excel workbook"), ("a.jsonl", b"BZhxxxx", "bzip2; unpack it")),
        ("a.csv", b"\x89PNG\r\n\0\0\1", "bytes that are no text; save it as CSV, JSONL or Parquet"),
        ("a.parquet", "x", "no Parquet file"),
    ],
)
def test_a_file_that_is_none_is_reported(tmp_path, name, content, said):
    with pytest.raises(InputFileError, match=said):
        records(written(tmp_path, name, content))


def test_a_damaged_file_is_reported(tmp_path):
    path = written(tmp_path, "a.jsonl.gz", '{"a": 1}\n' * 100_000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputFileError, match=r"a\.jsonl\.gz is damaged"):
        records(path)


def test_a_file_that_is_damaged_in_its_first_bytes_is_reported(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" * 100)[:-9])
    with pytest.raises(InputFileError, match=r"a\.csv\.gz is damaged: .*; get it again"), RecordFile(path):
        pass


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        (pyarrow.timestamp("s"), [0, 2**53], "rows 1 to 2: a value cannot be written in JSON"),
        (pyarrow.date32(), [2**30], "rows 1 to 1: a value cannot be written in JSON"),
        (pyarrow.struct([("t", pyarrow.timestamp("ns"))]), [{"t": 1}], "choose other columns with --map"),
    ],
)
def test_values_of_parquet_that_cannot_be_written_are_reported(tmp_path, kind, content, said):
    parquet.write_table(pyarrow.table({"x": pyarrow.array(content, kind)}), tmp_path / "a.parquet")
    with pytest.raises(InputFileError, match=said):
        records(tmp_path / "a.parquet")


def test_two_columns_of_parquet_with_one_name_are_refused(tmp_path):
    columns = [pyarrow.array([1]), pyarrow.array([2])]
    parquet.write_table(pyarrow.table(columns, names=["a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(InputFileError, match="two columns are called a"):
        records(tmp_path / "a.parquet")


def test_a_file_that_is_not_there_and_a_name_that_says_nothing_are_reported(tmp_path):
    with pytest.raises(InputFileError, match=r"a\.csv cannot be read: No such file"):
        records(tmp_path / "a.csv")
    with pytest.raises(ConfigurationError, match=r"a\.npy\.gz: of a compressed file only JSONL and CSV are read"):
        RecordFile(tmp_path / "a.npy.gz")


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", "host,load\na,1\n"), ("a.jsonl", '{"host": "a", "load": 1}\n')]
)
def test_a_missing_column_is_offered_the_nearest(tmp_path, name, content):
    path = written(tmp_path, name, content)
    for columns in ({"key": ("hots",)}, {"time": ("hots",)}, {"members": {"x": "hots"}}):
        with pytest.raises(ConfigurationError, match=r"no column hots \(did you mean host\?\); it has host, load"):
            records(path, **columns)


def test_two_members_in_one_place_are_refused(tmp_path):
    path = written(tmp_path, "a.csv", "a,a.b\n1,2\n")
    with pytest.raises(ConfigurationError, match=r"the member a\.b would stand where another one stands"):
        records(path)
