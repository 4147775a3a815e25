"""Where a reading begins is said in words, and what is not there is named with what is nearest."""

import time

import pytest
from resonance.pipeline.errors import BrokerError, ConfigurationError
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.kafka.positions import EARLIEST, LATEST, Position, partitions_of, ranges_from


class Log:
    """Two partitions, of which one has nothing as late as any moment."""

    servers = "kafka:9092"

    def check_seen(self, topic):
        pass

    def partition_counts(self):
        return {"shop.assignments": 2}

    def bounds(self, partitions):
        return {("t", 0): (5, 90), ("t", 1): (0, 7)}

    def offsets_at(self, partitions, moment):
        return {("t", 0): moment, ("t", 1): NO_OFFSET}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        *(("earliest", EARLIEST), ("latest", LATEST), ("-10m", Position(time=400_000))),
        *(("-1.5s", Position(time=998_500)), ("-250ms", Position(time=999_750)), ("-99999d", Position(time=0))),
        *(("81920", Position(offset=81_920)), ("2026-01-05T08:00:00Z", Position(time=1767600000000))),
        (" 2026-01-05 ", Position(time=1767571200000)),
    ],
)
def test_a_position_is_a_word_a_time_how_long_ago_or_an_offset(monkeypatch, text, position):
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    assert Position.parse(text, "--from") == position


@pytest.mark.parametrize("text", ["", "noon", "-10", "10m", "-m"])
def test_other_words_are_refused_with_what_is_allowed(text):
    with pytest.raises(ConfigurationError, match=f"--from {text}: must be earliest, latest, a time"):
        Position.parse(text, "--from")


@pytest.mark.parametrize(
    ("start", "ranges"),
    [
        *((EARLIEST, [(5, 90), (0, 7)]), (LATEST, [(90, 90), (7, 7)]), (Position(time=40), [(40, 90), (7, 7)])),
        *((Position(time=2), [(5, 90), (7, 7)]), (Position(offset=6), [(6, 90), (6, 7)])),
    ],
)
def test_a_reading_goes_from_its_start_to_the_present_end(start, ranges):
    assert list(ranges_from(Log(), [("t", 0), ("t", 1)], start).values()) == ranges


def test_the_partitions_of_an_output_topic():
    assert partitions_of(Log(), "shop.assignments", "shop") == [("shop.assignments", 0), ("shop.assignments", 1)]
    with pytest.raises(
        BrokerError, match=r"shop\.assignment does not exist on kafka:9092 \(did you mean shop\.assignm"
    ):
        partitions_of(Log(), "shop.assignment", "shop")
