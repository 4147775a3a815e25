"""Files beyond one CSV with a header: named columns, arrays, logs of Zeek, several files as one."""

import gzip
from pathlib import Path

import numpy as np
import orjson
import pytest
from resonance.pipeline.cli.file_settings import topic_from
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import BATCH, Columns, as_number
from resonance.pipeline.files.several_files import SeveralFiles

from tests.pipeline.files.written import records

ZEEK = (
    '#separator \\x09\n#unset_field\t-\n#fields\tts\tid.h\tbytes\n1700000000.5\t"a\t-\n1700000001.5\tb\t7\n#close\tx\n'
)


def values(path, **columns):
    return [record.value.decode() for record in records(path, **columns)]


def test_columns_without_a_header_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("1,2.50,x\n3,,y\n")
    assert values(tmp_path / "a.csv", names=("a", "b", "c")) == ['{"a":1,"b":2.50,"c":"x"}', '{"a":3,"b":null,"c":"y"}']
    (tmp_path / "b.csv").write_text("1,2.5\n")
    with pytest.raises(InputFileError, match=r"line 1: 1, 2.5 stand where .* or name them, such as --names c1..c2"):
        values(tmp_path / "b.csv")
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"--names: the columns of .*a.jsonl have names; leave it out"):
        RecordFile(tmp_path / "a.jsonl", Columns(names=("a",)))


def test_a_log_of_zeek_names_its_columns_and_says_what_is_missing(tmp_path):
    (tmp_path / "conn.log").write_text(ZEEK)
    found = ['{"ts":1700000000.5,"id":{"h":"\\"a"},"bytes":null}', '{"ts":1700000001.5,"id":{"h":"b"},"bytes":7}']
    assert values(tmp_path / "conn.log") == found
    (tmp_path / "broken.log").write_text(ZEEK.replace("b\t7", "b"))
    with pytest.raises(InputFileError, match="line 5: 2 cells where the header has 3"):
        values(tmp_path / "broken.log")
    for name, pack in (("json.log", bytes), ("json.log.gz", gzip.compress), ("json", bytes), ("json.labeled", bytes)):
        (tmp_path / name).write_bytes(pack(b'{"a": 1}\n'))
        assert values(tmp_path / name) == ['{"a": 1}']


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.bool_])
def test_an_array_is_a_table_of_features(tmp_path, kind):
    array = np.arange(2 * (BATCH + 5)).reshape(-1, 2).astype(kind)
    np.save(tmp_path / "a.npy", array)
    with RecordFile(tmp_path / "a.npy") as file:
        batches = [len(batch) for batch in file.batches()]
        assert (batches, file.total, file.position, file.unit) == ([BATCH, 5], BATCH + 5, BATCH + 5, "rows")
    first = str(array[1].tolist()).replace(" ", "").lower()
    assert values(tmp_path / "a.npy")[1] == f'{{"features":{first}}}'


def test_columns_of_an_array_may_be_named_and_give_key_and_time(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1.0, np.nan, 5.0], [2.0, 3.5, 6.0]]))
    columns = Columns({"x.y": "b"}, key=("c",), time=("a",), names=("a", "b", "c"))
    with RecordFile(tmp_path / "a.npy", columns) as file:
        (batch,) = file.batches()
    assert batch == [(b"5.0", b'{"x":{"y":null}}', 1), (b"6.0", b'{"x":{"y":3.5}}', 2)]
    np.save(tmp_path / "one.npy", np.arange(3))
    assert values(tmp_path / "one.npy") == ['{"features":[0]}', '{"features":[1]}', '{"features":[2]}']
    with pytest.raises(ConfigurationError, match=r"--names: 2 names for 3 columns of .*a.npy"):
        values(tmp_path / "a.npy", names=("a", "b"))


def test_an_array_of_objects_is_never_read(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputFileError, match=r"a.npy is no array of numbers that can be read"):
        values(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.zeros((2, 2, 2)))
    with pytest.raises(InputFileError, match=r"an array of shape \(2, 2, 2\) and type float64 is no table"):
        values(tmp_path / "b.npy")


def test_arrays_of_an_archive_are_columns(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([[1, 2], [3, 4]]), kind=np.array(["a", "b"]))
    assert values(tmp_path / "a.npz", key=("kind",)) == ['{"x":[1,2],"kind":"a"}', '{"x":[3,4],"kind":"b"}']
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 2)), y=np.zeros(3))
    with pytest.raises(InputFileError, match=r"its arrays {'x': 2, 'y': 3} are no columns of one table"):
        values(tmp_path / "b.npz")


@pytest.mark.parametrize(
    "text",
    [
        '[{"a":"}","b":[{}]},\n{"a":2.50}]',
        '[\n{"a":"}","b":[{}]}, {"a":2.50}\n]\n',
        '{\n"a":"}",\n"b":[{\n}]}\n{"a":2.50}',
        '{"a":"}","b":[{},\n{}]}\n{"a":2.50}',
    ],
)
def test_objects_of_an_array_or_on_several_lines_are_records(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    first, *others = values(tmp_path / "a.json")
    assert (first.replace("{},{}", "{}"), others) == ('{"a":"}","b":[{}]}', ['{"a":2.50}'])
    (tmp_path / "cut.json").write_text('[\n{"a": 1},\n{"a":')
    with pytest.raises(InputFileError, match=r"line 4: not JSON \(unexpected end of data"):
        values(tmp_path / "cut.json")


def test_json_of_python_and_of_a_windows_shell_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a":NaN,"b":"NaN, \\"Infinity"}\n{"a":-Infinity,"b":[1,NaN]}\n', "utf-16")
    assert values(tmp_path / "a.jsonl") == ['{"a":null,"b":"NaN, \\"Infinity"}', '{"a":null,"b":[1,null]}']


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a  bb  c\n1   2 3  \n10 20 30\n", [{"a": 1, "bb": 2, "c": 3}, {"a": 10, "bb": 20, "c": 30}]),
        ("a,b\n1,2,\n", [{"a": 1, "b": 2}]),
        ("v,v,w,v\n1,2,3,4\n", [{"v": 1, "v_2": 2, "w": 3, "v_3": 4}]),
        ("site,2023,2024\nx,5,6\n", [{"site": "x", "2023": 5, "2024": 6}]),
        (",0,1\n7,5,6\n", [{"0": 5, "1": 6}]),
        ("a;b\n1.234,5;2\n", [{"a": 1234.5, "b": 2}]),
        ("# Logger: 7\n\na;b\n1;2\n3;4\n", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
    ],
)
def test_headers_and_rows_of_other_programs(tmp_path, text, found):
    (tmp_path / "a.txt").write_text(text)
    assert list(map(orjson.loads, values(tmp_path / "a.txt"))) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$1,234.50", "1234.50"),
        ("12 %", "12"),
        ("-5\u00a0000", "-5000"),
        ("21.5°C", "21.5"),
        ("1 234.5", "1234.5"),
        ("1'234'567", "1234567"),
        ("1 234.5 6", None),
        ("3M", None),
        ("1,50", None),
    ],
)
def test_numbers_with_a_unit_or_thousands_are_read_where_wanted(text, found):
    assert (as_number(text), as_number(text, marked=True)) == (None, found)


def test_several_files_are_one(tmp_path):
    paths = [tmp_path / name for name in ("a.csv", "b.jsonl", "c.csv")]
    for path, text in zip(paths, ("x;y\n1;2,5\nbad\n", '{"x": 3}\n', "x,y\nbad\n4,5\n"), strict=True):
        path.write_text(text)
    with SeveralFiles(paths, Columns(skip_bad=True)) as files:
        found = [record.value.decode() for batch in files.batches() for record in batch]
        assert found == ['{"x":1,"y":2.5}', '{"x": 3}', '{"x":4,"y":5}']
        assert (files.skipped, files.position) == (2, files.total)
    with (
        pytest.raises(InputFileError, match=r"missing.csv cannot be read"),
        SeveralFiles([*paths, tmp_path / "missing.csv"]),
    ):
        pass
    with pytest.raises(ConfigurationError, match="files of lines and files of rows; name them apart"):
        SeveralFiles([*paths, tmp_path / "a.npy"])


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("flows.csv", "flows"), ("flows.jsonl.gz", "flows"), ("Flows.CSV.GZ", "Flows"), ("a.b.parquet", "a-b"),
        ("ramp_phi0.5_on6.csv", "ramp_phi0-5_on6"), ("ramp_phi0.9_on6.csv", "ramp_phi0-9_on6"),
        ("2026.01.05", "2026-01-05"), ("plant 1.2.log", "plant-1-2"), ("flows", "flows"), (".csv", "-csv"),
    ],
)  # fmt: skip
def test_only_the_suffixes_of_a_format_are_no_part_of_the_name_of_a_file(name, topic):
    assert topic_from(Path("data.d", name)) == topic
