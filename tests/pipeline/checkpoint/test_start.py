"""Where a new group begins to read, without a broker."""

import dataclasses
from datetime import UTC, datetime

import pytest
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError

from tests.pipeline.checkpoint.test_restore import AT, Log, given, source
from tests.pipeline.toy_task import ToyTask
from tests.pipeline.worker.processor_bench import P1, Bench

NOON = 1_767_268_800_000


@pytest.fixture
def log(monkeypatch):
    made = Log(monkeypatch)
    made.first, made.end = 5, 40

    def offsets_at(wanted, moment):
        # A record every minute from noon on.
        minute = max(0, (moment - NOON) // 60_000)
        return dict.fromkeys(wanted, minute if minute < made.end else -1)

    made.offsets_at = offsets_at
    return made


def begun(start):
    return restore_partitions(dataclasses.replace(source(), settings=given(start=start)), [AT], ToyTask)[AT]


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        *(("earliest", 5), ("latest", 40), ("2026-01-01T12:10:00.000Z", 10), ("2026-01-01T11:00:00.000Z", 5)),
        *(("2026-01-01T12:01:00.000Z", 5), ("2026-01-02T12:00:00.000Z", 40)),
    ],
)
def test_a_new_group_begins_where_the_settings_say(log, start, offset):
    part = begun(start)
    assert (part.start, part.committed, part.replayed) == (offset, -1, 0)
    assert part.pinned == (start == "earliest")
    assert part.writer.began == offset


@pytest.mark.parametrize("committed", [-1, 40])
def test_a_place_that_was_written_is_kept(log, committed):
    part = begun("latest")
    # With the commit of its offset, or, without transactions, before it.
    log.snapshots += part.writer.messages(part.task, part.start, committed)
    log.committed_offset, log.end = committed, 90
    again = begun("latest")
    assert (again.start, again.pinned, again.replayed) == (40, True, 0)


@pytest.mark.parametrize("start", ["latest", "2026-01-01T12:10:00.000Z"])
def test_without_snapshots_it_does_not_begin_with_records_that_were_never_learned(log, start):
    log.first, log.committed_offset = 0, 33
    with pytest.raises(MismatchError, match=f"offset 33 is committed, but .* with start = {start} they did not begin"):
        begun(start)
    assert begun("earliest").replayed == 33


def test_a_place_that_depends_on_the_moment_is_committed_at_once():
    bench = Bench()
    bench.partitions[P1].position, bench.partitions[P1].committed, bench.partitions[P1].pinned = 40, -1, False
    bench.open()
    bench.wait(lambda: bench.lines("commit"))
    assert bench.lines("commit")[0] == ("commit", {1: 40})
    bench.close()
    assert (bench.partitions[P1].committed, len(bench.lines("commit"))) == (40, 1)
    bench.processor.stop()
    calm = Bench()
    calm.open()
    calm.close()
    assert not calm.lines("commit")
    calm.processor.stop()


# The settings
@pytest.mark.parametrize(
    ("given", "text"),
    [
        *(("latest", "latest"), ("Earliest", "earliest"), ("2026-01-01T13:00:00+01:00", "2026-01-01T12:00:00.000Z")),
        *((NOON, "2026-01-01T12:00:00.000Z"), (str(NOON), "2026-01-01T12:00:00.000Z")),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), "2026-01-01T12:00:00.000Z"),
    ],
)
def test_a_time_can_be_written_in_several_ways(given, text):
    settings = Settings.of({"input.topics": ["in"], "start": given})
    assert settings.start == text
    assert Settings.of(settings.model_dump()).start == text


@pytest.mark.parametrize("given", ["soon", "2026-01-01", True, datetime(2026, 1, 1, 12), 1e30, [1]])
def test_what_is_no_time_is_refused(given):
    with pytest.raises(ConfigurationError, match=r"^start = .*must be earliest, latest or a time"):
        Settings.of({"input.topics": ["in"], "start": given})
