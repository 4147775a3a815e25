"""Files become the records that would be produced."""

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import orjson
import pyarrow
import pytest
from pyarrow import parquet
from resonance.pipeline.errors import InputFileError
from resonance.pipeline.files.csv_rows import SAMPLE
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import FileRecord
from resonance.pipeline.kafka.partitioner import murmur2, partition_of

from tests.pipeline.files.written import records, values, written


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson.gz"])
def test_lines_of_json_stay_as_they_are(tmp_path, name):
    path = written(tmp_path, name, '\ufeff{"a": 1.50, "b": [1]}\n\n  {"a":2}\r\n')
    assert records(path) == [FileRecord(None, b'{"a": 1.50, "b": [1]}', None), FileRecord(None, b'{"a":2}', None)]


def test_key_time_and_members_of_json_are_paths(tmp_path):
    path = written(
        tmp_path,
        "a.jsonl",
        '{"who": {"id": 7}, "at": "2026-01-05T08:00:00.5Z", "x": 1}\n{"who": {"id": null}, "x": 2}\n'
        '{"who": {"id": "é"}, "at": 1767600000123}\n',
    )
    assert records(path, members={"geo.x": "x", "user": "who.id"}, key=("who.id",), time=("at",)) == [
        FileRecord(b"7", b'{"user":7,"geo":{"x":1}}', 1767600000500),
        FileRecord(None, b'{"user":null,"geo":{"x":2}}', None),
        FileRecord("é".encode(), '{"user":"é"}'.encode(), 1767600000123),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_cells_of_csv_become_numbers_null_or_text(tmp_path, delimiter):
    rows = [
        ["id", "geo.lat", "geo.lon", "n", "what", "100%"],
        ["r1", "1.50", "-2e3", "5", "two words", "0"],
        ["r2", "", "NaN", "+.5", "  ", "1"],
        ["007", "3.", "x", "123456789012345678901", "12", " 7 "],
    ]
    first, *others = records(written(tmp_path, "a.csv", "\n".join(delimiter.join(row) for row in rows) + "\n"))
    assert first.value == b'{"id":"r1","geo":{"lat":1.50,"lon":-2e3},"n":5,"what":"two words","100%":0}'
    assert [orjson.loads(record.value) for record in others] == [
        {"id": "r2", "geo": {"lat": None, "lon": None}, "n": 0.5, "what": None, "100%": 1},
        {"id": "007", "geo": {"lat": 3.0, "lon": "x"}, "n": "123456789012345678901", "what": 12, "100%": 7},
    ]


def test_quoted_cells_may_hold_delimiters_quotes_and_lines(tmp_path):
    path = written(tmp_path, "a.csv.gz", 'a,b\n1,2\n"1,5","say ""x""\nand y"\n')
    assert values(path) == [{"a": 1, "b": 2}, {"a": "1,5", "b": 'say "x"\nand y'}]


@pytest.mark.parametrize("indent", [None, 1])
def test_columns_of_json_are_read_as_rows(tmp_path, indent):
    columns = {"a": [0.1, *range(2_999)], "b": [None, *range(2_999)]}
    rows = [dict(zip("ab", row, strict=True)) for row in zip(*columns.values(), strict=True)]
    numbered = {name: {str(n): value for n, value in enumerate(own)} for name, own in columns.items()}
    for each in (columns, numbered):
        assert values(written(tmp_path, "a.json", json.dumps(each, indent=indent))) == rows
    for each in ({"a": [1, 2], "b": [3]}, {"a": [1], "b": [2]}, {"a": [1, 2]}, {"a": {"x": 1}, "b": {"x": 2}}):
        assert values(written(tmp_path, "a.json", json.dumps(each, indent=indent))) == [each]
    assert values(written(tmp_path, "a.jsonl", json.dumps(columns))) == [columns]
    assert values(written(tmp_path, "a.json", " \n\n")) == []


@pytest.mark.parametrize("inside", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c"])
def test_a_row_of_csv_ends_at_a_line_feed_alone(tmp_path, inside):
    path = written(tmp_path, "a.csv", f"a,b\r\n1,x{inside}y\r\n2,z\n")
    assert values(path) == [{"a": 1, "b": f"x{inside}y"}, {"a": 2, "b": "z"}]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("short", range(-2, 3))
def test_a_line_may_end_where_the_sample_of_the_delimiter_does(tmp_path, end, short):
    rows = [f"{i},abcdefgh" for i in range(100_000, 108_000)]
    size = len(rows[0] + end)
    header = "n,".ljust((SAMPLE - short) % size + 2 * size - len(end), "x")
    found = values(written(tmp_path, "a.csv", end.join([header, *rows]) + end))
    assert [record["n"] for record in found] == list(range(100_000, 108_000))


def test_columns_of_csv_can_be_chosen_and_give_key_and_time(tmp_path):
    path = written(tmp_path, "a.csv", ",host,ts,load\n0,a,2026-01-05 08:00:00,0.5\n1,,1767600000000,1\n")
    assert records(path, members={"m.load": "load"}, key=("host",), time=("ts",)) == [
        FileRecord(b"a", b'{"m":{"load":0.5}}', 1767600000000),
        FileRecord(None, b'{"m":{"load":1}}', 1767600000000),
    ]
    assert list(values(path)[0]) == ["host", "ts", "load"], "a column without a name is left out"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("site,,heat,,\nid,at,in,out,in\na,b,1,2,3\n", ["site id", "site at", "heat in", "heat out", "heat in_2"]),
        ("title\n\n,heat,\n\nid,in,out\na,1,2\n", ["id", "heat in", "heat out"]),
        # A line of units, records whose numbers come later, and columns without names.
        ("at;heat;\n;°C;\na;1;\n", ["at", "heat", ""]),
        ("at,heat,\nx,N/A,y\nz,N/A,y\n", ["at", "heat", ""]),
        (",heat,\n0,1,x\n1,2,y\n", ["", "heat", ""]),
        ("at,,heat\nx,a,N/A\ny,,1\n", ["at", "", "heat"]),
    ],
)
def test_a_header_of_two_lines_has_groups_of_columns_and_their_names(tmp_path, text, names):
    path = written(tmp_path, "a.csv", text)
    with RecordFile(path) as file:
        assert file.names == names
    assert len(records(path)) == 2 - all(names)


def test_a_word_can_mean_that_nothing_is_there(tmp_path):
    path = written(tmp_path, "a.csv", "x,y\n1,NA\nNA,a\n0,-\n")
    assert values(path, nulls=("NA", "-")) == [{"x": 1, "y": None}, {"x": None, "y": "a"}, {"x": 0, "y": None}]
    path = written(tmp_path, "b.csv", "x,y\n1,-999\n")
    assert values(path, nulls=("-999",)) == [{"x": 1, "y": None}]


def test_a_number_that_means_nothing_does_so_in_each_spelling(tmp_path):
    path = written(tmp_path, "a.csv", "a;b;c\n-200;-200,0;-2,00e2\n+3;-200.00;-200x\n")
    assert values(path, nulls=("-200",), decimal=",") == [
        {"a": None, "b": None, "c": None},
        {"a": 3.0, "b": None, "c": "-200x"},
    ]
    path = written(tmp_path, "a.jsonl", '{"a": -200, "b": [-200.0, 1], "c": "-200", "d": true}\n')
    assert values(path, nulls=("-200", "1.0")) == [{"a": None, "b": [None, None], "c": None, "d": True}]
    parquet.write_table(pyarrow.table({"a": [-200, 1], "b": [0.5, -200.0]}), tmp_path / "a.parquet")
    assert values(tmp_path / "a.parquet", nulls=("-200",)) == [{"a": None, "b": 0.5}, {"a": 1, "b": None}]


def test_a_row_of_separators_is_a_blank_one(tmp_path):
    assert values(written(tmp_path, "a.csv", "a;b\n1;2\n;\n;;;;\n3;\n")) == [{"a": 1, "b": 2}, {"a": 3, "b": None}]


def test_what_means_nothing_is_no_key_and_no_time(tmp_path):
    path = written(tmp_path, "a.csv", "host,t,x\nN/A,N/A,1\n")
    assert records(path, key=("host",), time="t", members={"x": "x"}, nulls=("N/A",)) == [
        FileRecord(None, b'{"x":1}', None)
    ]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_commas_are_read_where_no_comma_delimits(tmp_path, delimiter):
    rows = [["x", "y", "what"], ["1,50", "2", "a"], ["-0,5", "1.234,5", "1,2,3"], ["3", "", "b"]]
    path = written(tmp_path, "a.csv", "\n".join(delimiter.join(row) for row in rows) + "\n")
    assert records(path)[0].value == b'{"x":1.50,"y":2,"what":"a"}'
    assert values(path)[1:] == [{"x": -0.5, "y": 1234.5, "what": "1,2,3"}, {"x": 3, "y": None, "what": "b"}]
    assert values(path, decimal=".")[1] == {"x": "-0,5", "y": "1.234,5", "what": "1,2,3"}


def test_a_comma_is_decimal_on_request_and_never_by_itself_beside_points(tmp_path):
    path = written(tmp_path, "a.csv", 'x,y\n"1,5",2\n')
    assert (values(path), values(path, decimal=",")) == ([{"x": "1,5", "y": 2}], [{"x": 1.5, "y": 2}])
    path = written(tmp_path, "b.csv", "x;y;z\n1.5;2.5;1,000\n")
    assert values(path) == [{"x": 1.5, "y": 2.5, "z": "1,000"}]


def test_texts_of_json_and_parquet_become_numbers_or_null_on_request(tmp_path):
    rows = [{"id": "007", "x": "1.50", "y": {"z": ["N/A", "2"]}}, {"id": "b", "x": "N/A", "y": {"z": []}}]
    wanted = [{"id": "007", "x": 1.5, "y": {"z": [None, 2]}}, {"id": "b", "x": None, "y": {"z": []}}]
    path = written(tmp_path, "a.jsonl", "".join(orjson.dumps(row).decode() + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    for file in (path, tmp_path / "a.parquet"):
        assert values(file) == rows
        assert values(file, nulls=("N/A",), numbers=True) == wanted
    assert records(path, key=("x",), nulls=("N/A",))[1].key is None


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npz"])
def test_several_columns_are_one_key_and_differ_where_their_texts_do(tmp_path, kind):
    rows = [{"site": "a.b", "unit": "c"}, {"site": "a", "unit": "b.c"}, {"site": "a\\.b", "unit": ""}]
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        written(tmp_path, path.name, "site,unit\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    elif kind == "jsonl":
        written(tmp_path, path.name, b"\n".join(map(orjson.dumps, rows)))
    elif kind == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        np.savez(path, **{name: np.array([row[name] for row in rows]) for name in rows[0]})
    assert [record.key for record in records(path, key=("site", "unit"))] == [rb"a\.b.c", rb"a.b\.c", None]


def test_a_line_is_read_again_only_for_numbers_that_are_written_anew(tmp_path, monkeypatch):
    line = '{"id": "a", "n": 7, "t": 1767600000000, "x": [0.12345678901234567890], "y": 0.8444218515250481}'
    path = written(tmp_path, "a.jsonl", line + "\n")
    read = []
    monkeypatch.setattr("resonance.pipeline.exact_json.exact", lambda text, found: read.append(text) or found)
    records(path, key=("id",), time="t")
    records(path, key=("n",), members={"own": "id", "n": "n"})
    assert not read
    for given in ({"key": "y"}, {"members": {"x": "x"}}, {"members": {"y": "y"}}, {"nulls": ("?",)}):
        records(path, **given)
        assert read.pop() == line.encode()


def test_digits_of_numbers_are_kept(tmp_path):
    long = "12345678901234567890123"
    path = written(tmp_path, "a.jsonl", f'{{"id": {long}, "t": 1767600000000.00000001, "no": "x"}}\n')
    (record,) = records(path, key=("id",), time="t", nulls=("x",))
    assert record == (long.encode(), f'{{"id":{long},"t":1767600000000.00000001,"no":null}}'.encode(), 1767600000000)
    assert records(path, members={"own": "no", "all": "id"})[0].value == f'{{"own":"x","all":{long}}}'.encode()
    assert records(path, members={"own": "id"})[0].value == f'{{"own":{long}}}'.encode()
    path = written(tmp_path, "a.csv", "x,y,z\n+123456789012345678,.12345678901234567890,+5\n")
    assert records(path)[0].value == b'{"x":123456789012345678,"y":0.12345678901234567890,"z":5.0}'
    decimals = pyarrow.array([Decimal(long), Decimal("1"), None], pyarrow.decimal128(30, 2))
    parquet.write_table(pyarrow.table({"id": decimals}), tmp_path / "a.parquet")
    assert [(row.key, row.value) for row in records(tmp_path / "a.parquet", key=("id",))] == [
        (f"{long}.00".encode(), f'{{"id":{long}.00}}'.encode()),
        (b"1.0", b'{"id":1.0}'),
        (None, b'{"id":null}'),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("first", ["", "sep=;\r\n", '"sep=;"\n'])
def test_files_of_excel_are_read(tmp_path, encoding, first):
    path = written(tmp_path, "a.csv", f"{first}Gerät;a\r\nZürich;1,5\r\n".encode(encoding))
    assert values(path) == [{"Gerät": "Zürich", "a": 1.5}]
    path = written(tmp_path, "b.csv", f"{first}a;b\r\n1;2\r\n1;2;3\r\n".encode(encoding))
    with pytest.raises(InputFileError, match=rf"b.csv, line {4 if first else 3}: 3 cells where the header has 2"):
        values(path)


def test_a_first_line_may_give_any_delimiter(tmp_path):
    assert values(written(tmp_path, "a.csv", "SEP=:\na:b\n1,5:2;3\n")) == [{"a": 1.5, "b": "2;3"}]
    assert values(written(tmp_path, "b.csv", "sep=,\na\n1\n")) == [{"a": 1}]
    assert values(written(tmp_path, "c.csv", "sep=5\n1\n")) == [{"sep=5": 1}]


def test_a_packed_file_is_read_whatever_it_is_called(tmp_path):
    assert values(written(tmp_path, "a.csv", gzip.compress(b"a\n1\n"))) == [{"a": 1}]
    assert values(written(tmp_path, "a.jsonl", gzip.compress(b'{"a": 1}\n'))) == [{"a": 1}]


def test_a_single_column_is_csv_too(tmp_path):
    assert values(written(tmp_path, "a.csv", "x\n1\n2\n")) == [{"x": 1}, {"x": 2}]


def test_parquet_says_times_and_numbers_as_the_bus_does(tmp_path):
    table = pyarrow.table(
        {
            "id": pyarrow.array(["a", "b"]).dictionary_encode(),
            "geo.lat": [1.5, float("nan")],
            "at": pyarrow.array([datetime(2026, 1, 5, 8, tzinfo=UTC), None], pyarrow.timestamp("ns", "UTC")),
            "day": [date(2026, 1, 5), None],
            "price": [Decimal("1.25"), None],
            "features": [[1, 2], [3, 4]],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    found = records(tmp_path / "a.parquet", key=("id",), time=("at",))
    assert [record[::2] for record in found] == [(b"a", 1767600000000), (b"b", None)]
    day = {"at": "2026-01-05T08:00:00.000Z", "day": "2026-01-05", "price": 1.25}
    assert [orjson.loads(record.value) for record in found] == [
        {"id": "a", "geo": {"lat": 1.5}, "features": [1, 2], **day},
        {"id": "b", "geo": {"lat": None}, "features": [3, 4], **dict.fromkeys(day)},
    ]
    assert values(tmp_path / "a.parquet", members={"where": "geo.lat"}) == [{"where": 1.5}, {"where": None}]


def test_times_may_have_another_form(tmp_path):
    path = written(tmp_path, "a.csv", "t,x\n05.01.2026 08:00,1\n,2\n")
    assert [record.timestamp for record in records(path, time="t", time_form="%d.%m.%Y %H:%M")] == [1767600000000, None]
    path = written(tmp_path, "b.csv", "t,x\n1767600000.5,1\n")
    assert [record.timestamp for record in records(path, time="t", time_form="%s")] == [1767600000500]
    with pytest.raises(InputFileError, match="line 2: '1767600000' is no time of the form %Y"):
        records(written(tmp_path, "c.jsonl", '{"t": 2026}\n{"t": "1767600000"}\n'), time="t", time_form="%Y")
    with pytest.raises(InputFileError, match=r"line 1: '\[\]' is no time of the form %s"):
        records(written(tmp_path, "d.jsonl", '{"t": []}\n'), time="t", time_form="%s")


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        *((b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)),
        (b"a-little-bit-longer-string", -1486304829),
        *((b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971), (b"abc", 479470107)),
    ],
)
def test_keys_are_hashed_as_kafka_does(key, hashed):
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_of(key, 7) == (hashed & 0x7FFFFFFF) % 7


def test_numbers_with_a_unit_that_is_named_are_read_without_it(tmp_path):
    table = written(tmp_path, "own.csv", 'force,stroke,name\n410.5 kN,"1,234.5mm",2 kN\n-3kN,7 cm,kN\n')
    expected = [{"force": 410.5, "stroke": 1234.5, "name": 2}, {"force": -3, "stroke": "7 cm", "name": "kN"}]
    assert [orjson.loads(each.value) for each in records(table, units=("kN", "mm"))] == expected
    lines = written(tmp_path, "own.jsonl", '{"force": "410.5 kN", "stroke": "1,234.5mm", "name": "2 kN"}\n')
    assert [orjson.loads(each.value) for each in records(lines, units=("kN", "mm"))] == expected[:1]
    german = written(tmp_path, "de.csv", "kraft;hub\n410,5 kN;1,5\n1.234,5 kN;2,5\n")
    assert [orjson.loads(each.value)["kraft"] for each in records(german, units=("kN",))] == [410.5, 1234.5]
