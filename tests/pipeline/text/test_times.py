"""Times of a batch are read and written as `datetime` does it."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from resonance.pipeline.text import times
from resonance.pipeline.timestamps import canonical, epoch_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def values():
    drawn = np.random.default_rng(2).integers(times.FIRST, times.LAST, 3_000)
    days = np.arange(times.FIRST, times.LAST, 997 * 86_400_000)
    near = 1_700_000_000_000 + np.arange(0, 3_000, 7)
    return np.concatenate([drawn, days, days + 86_399_999, near, [0, -1, times.FIRST, times.LAST]])


def text_of(value):
    moment = EPOCH + timedelta(milliseconds=int(value))
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds").zfill(23) + "Z"


def test_times_are_read_and_written_as_datetime_does_it():
    texts = list(map(text_of, values()))
    assert times.texts_of(values()) == texts
    assert times.times_of(texts).tolist() == values().tolist()
    assert times.texts_of(values()[:0]) == []


def read(text):
    """Return the milliseconds, None for a time that is not read."""
    found, stop = times.read_time(np.frombuffer(text.encode() + b'"\0' + bytes(20), np.uint8), 0)
    return found if stop == len(text.encode()) else None


def expected(text):
    try:
        return epoch_ms(canonical(text))
    except ValueError:
        return None


parts = (r"[0-9]{4}-[01][0-9]-[0-3][0-9]", r"[Tt ]", r"[0-2][0-9]:[0-5][0-9]:[0-6][0-9]", r"(\.[0-9]{0,9})?")


@settings(deadline=None)
@given(some.from_regex("".join(parts) + r"([Zz]|[+-][0-2][0-9]:[0-7][0-9]|)", fullmatch=True))
@example("2026-01-31T12:00:00Z")
@example("2024-02-29 12:00:00.123456+02:00")
@example("2023-02-29T12:00:00Z")
@example("2100-02-29T12:00:00Z")
@example("2026-04-31T12:00:00Z")
@example("2026-12-31T23:59:59.9z")
@example("0000-01-01T00:00:00Z")
@example("0001-01-01T00:00:00+00:01")
@example("9999-12-31T23:59:59.999-00:01")
@example("2026-01-31T24:00:00Z")
@example("2026-01-31T12:00:00.Z")
@example("2026-01-31T12:00:00+0100")
@example("2026-01-31T12:00Z")
def test_a_time_that_is_read_is_the_one_of_the_other_way(text):
    if ":60" not in text:
        assert read(text) == expected(text)
    elif (found := read(text)) is not None:
        assert found == expected(text)


@pytest.mark.parametrize("text", ["", "2026", "2026-01-31", "yesterday", "2026-01-31T12:00:60Z"])
def test_what_is_no_time_is_not_read(text):
    assert read(text) is None


@pytest.mark.parametrize("texts", [["2026-01-02T03:04:05Z"], ["2026-01-02T03:04:05.678Z", ""], [""]])
def test_times_of_another_length_are_not_read_as_if_they_had_it(texts):
    with pytest.raises(ValueError, match=f"{len(texts)} times take .* canonical ones 24 each"):
        times.times_of(texts)
