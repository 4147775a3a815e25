"""A mapping in a temporary file: what it holds, and what it does where there is no room for the file."""

import gc
import logging
import sqlite3
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from resonance.pipeline import disk_map
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.errors import ResourceError


def test_it_holds_what_a_dictionary_holds():
    random, rows, expected = Random(1), DiskMap(), {}
    assert (rows.get(b"a"), rows.pop(b"a"), len(rows), [*rows]) == (None, None, 0, [])
    for _ in range(6_000):
        key = random.randbytes(random.randrange(3))
        if random.random() < 0.3:
            assert rows.pop(key) == expected.pop(key, None)
        else:
            expected[key] = random.randbytes(random.randrange(9_000))
            rows.put(key, expected[key])
    assert len(rows) == len(expected) > disk_map.PAGE
    assert [*rows] == sorted(expected)
    assert {key: rows.get(key) for key in rows} == expected


def test_keys_that_come_or_go_while_they_are_listed():
    rows = DiskMap()
    for number in range(3 * disk_map.PAGE):
        rows.put(b"%05d" % number, b"")
    found = []
    for key in rows:
        found.append(key)
        rows.pop(key)
        rows.put(b"0", b"behind")
    assert (len(found), [*rows]) == (3 * disk_map.PAGE, [b"0"])


def test_one_thread_writes_and_another_reads():
    rows = DiskMap()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(rows.put, b"a", b"b").result()
    assert rows.get(b"a") == b"b"


def test_a_full_disk_is_named_with_what_helps():
    rows = DiskMap()
    rows.put(b"a", b"a")
    rows._rows.execute("PRAGMA max_page_count = 5")
    with pytest.raises(ResourceError, match=r"temporary file .* is full.* TMPDIR"):
        rows.put(b"b", bytes(100_000))


def test_without_a_folder_for_temporary_files_it_stays_in_memory(monkeypatch, caplog):
    def no_folder():
        raise FileNotFoundError("no usable temporary directory found")

    disk_map._place.cache_clear()
    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            rows = DiskMap()
            rows.put(b"a", bytes(20_000_000))
    disk_map._place.cache_clear()
    assert rows._rows.execute("PRAGMA database_list").fetchall()[0][2] == ""
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "TMPDIR" in caplog.text


def test_its_file_goes_with_it():
    rows = DiskMap()
    rows.put(b"a", b"a")
    connection = rows._rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del rows
        gc.collect()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
