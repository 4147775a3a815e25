"""Times with the English name of their month are those of the records, in whatever form they are written."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from resonance.pipeline.files.month_names import form_of
from resonance.pipeline.timestamps import milliseconds, timestamp_of

from tests.pipeline.files.surveyed import measured, noted

BEGIN = datetime(2026, 1, 12, 23, 12, tzinfo=UTC)
TIMES = [BEGIN + n * timedelta(minutes=17) for n in range(130)]
AHEAD = timezone(timedelta(hours=-5, minutes=-30))

DAYS = (
    *("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%d. %b %Y", "%d/%b/%Y", "%d.%b.%y", "%b %d %Y", "%b %d, %Y"),
    *("%B %d, %Y", "%Y %b %d", "%Y-%b-%d", "%a, %d %b %Y", "%A, %B %d, %Y", "%a %b %d %Y", "%d%b%Y"),
)
CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H.%M.%S", "%I:%M %p", "%I:%M:%S %p", "%I:%M:%S%p")
ZONES = ("", " %z", "%z", " GMT", " UTC", "Z")
WHOLE = (
    *("%d/%b/%Y:%H:%M:%S %z", "[%d/%b/%Y:%H:%M:%S %z]", "%d%b%Y:%H:%M:%S", "%a %b %d %H:%M:%S %Y"),
    *("%a %b %d %H:%M:%S %z %Y", "%a %b %d %H:%M:%S UTC %Y", "%a %b %d %Y %H:%M:%S GMT%z", "%Y %b %d, %H:%M"),
    *("%b %d, %Y, %I:%M:%S %p", "%B %d, %Y at %I:%M %p", "%d-%b-%YT%H:%M:%S", "%d-%b-%y %I.%M.%S.%f %p"),
)


def taken(texts, name="x"):
    """Return the columns of the time, and its form, that are taken without a question."""
    found = [note.change for note in noted([measured(**{name: text}) for text in texts]).notes if note.change.time]
    return (found[0].time, found[0].time_form) if found else None


def written_in(form, times=TIMES):
    return [(time.astimezone(AHEAD) if "%z" in form else time).strftime(form) for time in times]


def read(texts, form):
    return [datetime.fromtimestamp(milliseconds(text, form) / 1000, UTC) for text in texts]


def check(form):
    texts = written_in(form)
    ((path,), own) = taken(texts)
    assert (path, read(texts, own)) == ("x", TIMES)
    # Days and hours without a zero, names in capitals, and several spaces are no other form.
    loose = [text.upper().replace(" 0", "  ") if form[:2] != "%Y" else text.lower().replace("z", "Z") for text in texts]
    assert read(loose, taken(loose, "date")[1]) == TIMES


@pytest.mark.parametrize("day", DAYS)
@pytest.mark.parametrize("clock", CLOCKS)
def test_days_times_and_zones_go_together_in_any_form(day, clock):
    for zone in ZONES:
        check(f"{day} {clock}{zone}")


@pytest.mark.parametrize("form", WHOLE)
def test_forms_of_logs_and_programs_are_known(form):
    check(form)


@pytest.mark.parametrize("day", DAYS)
def test_a_day_alone_or_beside_a_column_of_times_is_one_too(day):
    days = [BEGIN.replace(hour=0, minute=0) + timedelta(days=n) for n in range(300)]
    texts = written_in(day, days)
    assert read(texts, taken(texts)[1]) == days
    rows = [measured(Date=time.strftime(day), Time=time.strftime("%I:%M%p")) for time in TIMES]
    (note,) = [note for note in noted(rows).notes if note.change.time]
    assert note.change.time == ("Date", "Time")
    found = [timestamp_of((row["Date"], row["Time"]), note.change.time_form) for row in rows]
    assert found == [time.timestamp() * 1000 for time in TIMES]


@pytest.mark.parametrize("zone", [AHEAD, UTC])
@pytest.mark.parametrize("comments", [(), ("CET", "CEST"), ("Central European Standard Time", "Mitteleuropa")])
def test_times_of_mails_are_read_whatever_their_comments_are(zone, comments):
    texts = [format_datetime(time.astimezone(zone)) for time in TIMES]
    texts = [f"{text} ({comments[n // 65]})" if comments else text for n, text in enumerate(texts)]
    assert read(texts, taken(texts, "date")[1]) == TIMES
    # A form may have a comment itself.
    assert milliseconds("12.01.2026 (Mon)", "%d.%m.%Y (%a)") == milliseconds("2026-01-12")


@pytest.mark.parametrize("day", ["%d %B %Y", "%B %d, %Y", "%d %b %Y"])
def test_the_short_and_the_whole_name_of_may_are_told_apart_by_the_other_months(day):
    times = [datetime(2026, 5, 20, tzinfo=UTC) + n * timedelta(minutes=17) for n in range(2_000)]
    for some in (times, times[:600]):
        texts = written_in(f"{day} %H:%M", some)
        assert read(texts, taken(texts)[1]) == some


@pytest.mark.parametrize(
    "text",
    [
        *("Jan 12 06:12:00", "Mon 12 2026", "order 12 Jan 2026", "12 Jan 2026 to 13 Jan 2026", "Marching 12 2026"),
        *("May", "12 2026", "12 Jan 2026 06:12:00 CET", "Jan 12 Feb 2026", "12 Jan 2026 06:12 07:13", "%d %b %Y", ""),
        *("12 Janvier 2026", "lot-12-jan-2026", "2026-01-12", "Sat", "Dec 1, 2, 2026"),
    ],
)
def test_other_texts_have_no_form(text):
    assert form_of(text) is None


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %I:%M %p", "%Y-%m-%d %I:%M:%S%p", "%d.%m.%Y %I:%M%p", "%m/%d/%y %I:%M:%S%p"]
)
def test_halves_of_the_day_stand_behind_digits_as_well(form):
    texts = written_in(form)
    assert read(texts, taken(texts)[1]) == TIMES


@pytest.mark.parametrize("clock", ["%H:%M", "%H:%M:%S", "%H.%M.%S", "%H:%M:%S.%f", "%I:%M:%S %p"])
@pytest.mark.parametrize("zone", ["+02:00", " +02:00", "-09:30", " -09:30", " GMT-03:00"])
def test_a_distance_from_utc_is_no_second_time(clock, zone):
    text = datetime(2026, 1, 5, 15, 4, 5, 250_000).strftime(f"%d/%b/%Y:{clock}") + zone
    assert (datetime.strptime(text, form_of(text) or "").utcoffset() or timedelta()) != timedelta()
    assert form_of("Marat 5 2020") is None
    assert form_of("12-Jan-2020-10:30") == "%d-%b-%Y-%H:%M"
