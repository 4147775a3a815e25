"""Of dates in digits it is found in all records that are looked at whether the day or the month comes first."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.suggest import suggest
from resonance.pipeline.files.survey import FileSurvey

BATCH = 2_000
DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y")
TIMES = ("%H:%M:%S", "%H:%M", "%I:%M:%S %p")


def noted(times, form, split=False):
    """Return the note on the times of three machines, in one column or two."""
    draw, rows = random.Random(1), []
    for time in times:
        text = time.strftime(form)
        own = dict(zip(("Date", "Hour"), text.split(" ", 1), strict=True)) if split else {"at": text}
        rows += [{**own, "machine": f"m{k}", "load": draw.random()} for k in range(3)]
    seen = FileSurvey()
    for start in range(0, len(rows), BATCH):
        seen.add(rows[start : start + BATCH])
    (note,) = [note for note in suggest(seen, Columns()).notes if "--time-form" in str(note)]
    return note


def every(begin, step, count):
    return [begin + step * n for n in range(count)]


@pytest.mark.parametrize("day", DAYS)
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("split", [False, True])
def test_a_day_beyond_12_far_behind_the_first_records_says_the_form(day, time, split):
    # From the 6th to the 15th, then 1st to the 8th of the next month: the first and the last records have two readings.
    times = every(datetime(2026, 7, 6, tzinfo=UTC), timedelta(minutes=9), 160 * 33)
    note = noted(times, f"{day} {time}", split)
    assert note.change.time_form == f"{day} {time}"
    assert note.change.time == (("Date", "Hour") if split else ("at",))


@pytest.mark.parametrize("day", DAYS)
@pytest.mark.parametrize("time", TIMES[:2])
@pytest.mark.parametrize(("begin", "days"), [((2026, 7, 1), 11), ((2026, 7, 3), 9), ((2026, 11, 2), 10)])
@pytest.mark.parametrize("slips", [False, True])
def test_the_order_and_the_even_steps_decide_where_no_day_is_beyond_12(day, time, begin, days, slips):
    times = every(datetime(*begin, tzinfo=UTC), timedelta(minutes=5), 288 * days)
    if slips:
        draw = random.Random(2)
        for at in draw.sample(range(len(times) - 20), 20):
            times.insert(at + draw.randrange(20), times[at])
    assert noted(times, f"{day} {time}").change.time_form == f"{day} {time}"


def test_a_wrong_date_is_no_reason_for_the_other_form():
    times = every(datetime(2026, 7, 6, tzinfo=UTC), timedelta(minutes=9), 160 * 33)
    times[2_500] = datetime(1900, 1, 1, tzinfo=UTC)
    assert noted(times, "%m/%d/%Y %H:%M").change.time_form == "%m/%d/%Y %H:%M"


def test_where_nothing_decides_one_line_says_what_to_give():
    times = every(datetime(2026, 7, 6, 7, tzinfo=UTC), timedelta(minutes=1), 600)
    assert str(noted(times, "%d/%m/%Y %H:%M")) == (
        "at can be read in 2 ways, such as '06/07/2026 07:00', so it gives records, alerts and incidents no times; "
        "say which: --time at --time-form '%d/%m/%Y %H:%M' or '%m/%d/%Y %H:%M'"
    )
