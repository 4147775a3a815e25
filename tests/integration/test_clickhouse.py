"""A real ClickHouse keeps the assignments as a table, with docker/connect/clickhouse.sql."""

import json
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.brokers import create_topic, produce
from tests.pipeline.streams import STAMP, points, records, settings, task

ROOT = Path(__file__).resolve().parents[2]
SQL = (ROOT / "docker" / "connect" / "clickhouse.sql").read_text()


def test_what_it_reads_are_members_of_assignments():
    schema = json.loads((ROOT / "schemas" / "assignment.schema.json").read_text())
    queue = re.search(r"CREATE TABLE assignments_queue \((.*?)\n\)", SQL, re.DOTALL)[1]
    assert set(re.findall(r"^ +(\w+)", queue, re.MULTILINE)) <= set(schema["required"])
    inside = re.search(r"source Tuple\((.*)\)", queue)[1]
    assert {each.split()[0] for each in inside.split(", ")} == set(schema["$defs"]["Source"]["properties"])


@pytest.mark.broker
@pytest.mark.nightly
def test_each_record_has_a_row(broker):
    chdb = pytest.importorskip("chdb", reason="no ClickHouse (pip install chdb)")
    session = chdb.session.Session()
    topic = create_topic(broker, "demo.assignments", partitions=2)
    values = [
        each.value for each in task(settings(input__id_path="id")).process(records(points(100).tolist())).assignments
    ]
    first = json.loads(values[0])
    first["source"]["index"] = 7
    # One of them twice, as after a crash of ClickHouse; a member that the table does not know.
    odd = [json.dumps({**first, "id": 5, "include": {"a": 1}}).encode()] * 2
    produce(broker, topic, [(at % 2, b"k", value) for at, value in enumerate([*values, *odd])])
    session.query("CREATE DATABASE tables ENGINE = Atomic")
    session.query("USE tables")
    for statement in SQL.replace("localhost:9092", broker).replace("demo.assignments", topic).split(";")[:-1]:
        # Embedded, it calls every new table of Kafka an error, and reads it all the same.
        with suppress(RuntimeError):
            session.query(statement)

    def rows(columns):
        wanted = f"SELECT {columns} FROM assignments FINAL ORDER BY ALL"  # noqa: S608 - of this file
        found = session.query(wanted, "JSONCompactEachRow")
        return [json.loads(line) for line in str(found).splitlines()]

    end = time.monotonic() + 60
    while len(rows("id")) < len(values) + 1:
        assert time.monotonic() < end
        time.sleep(0.2)
    members = ("id", "stream", "cluster", "score", "novel")
    taken = [json.loads(value) for value in values]
    expected = [[each["source"]["offset"], 0, *(each[name] for name in members)] for each in taken]
    expected.insert(1, [expected[0][0], 7, "5", *expected[0][3:]])
    assert rows(f"offset, element, {', '.join(members)}") == expected
    assert rows("toUnixTimestamp64Milli(min(time))") == [[STAMP]]
    session.close()
