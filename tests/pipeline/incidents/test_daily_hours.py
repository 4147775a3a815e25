"""A stream that starts and stops every day says so in its first days, and that is no incident."""

import pytest

from tests.pipeline.incidents.outputs import alert, drift, emerged, incidents, named, output

DAY = 1_440
START = 360
"""Minute of the day at which the stream starts."""

FIRST = emerged("p1:d1", 10, 0, power=50.0)


def unlike(minute, key, *, known=False, outside=1.0, power=(300.0, 70.0), lasts=20):
    """Records that are unlike what is usual, for a while."""
    opened = named(alert("p1:d1", minute, records=5.0, unlike=5.0, known=float(known)), power=power)
    cleared = alert("p1:d1", minute + lasts, kind="cleared", outside=outside, records=20.0, unlike=5.0)
    for each in (opened, cleared):
        each[1]["key"] += f"/{key}"
    return opened, cleared


def starts(*days, minute=START):
    """Starts of some days, that the model knows from the second one on."""
    return [each for day in days for each in unlike(DAY * day + minute + day % 3, day, known=day > 0)]


def texts(*outputs):
    """What is said of the stream, a record of which comes every minute."""
    quiet = [output("cluster_events", "p1:d1", DAY * 12, kind="vanished", cluster=None, after=[], before=[])]
    return [each["text"] for each in incidents(FIRST, *quiet, *outputs, streams=2) if "p1:d1" in each["streams"]]


def test_a_start_of_the_first_day_that_comes_again_at_its_hour_is_no_incident():
    assert texts(*starts(0, 2, 3, 6)) == []
    # Nor is a later one that is where the others were, with what is a little off soon after it.
    late = [*unlike(DAY * 9 + START, "late"), *unlike(DAY * 9 + START + 15, "soon", power=(85.0, 70.0))]
    assert texts(*starts(0, 2, 3, 6), *late) == []
    # Nor is what the watch of its first days says of it.
    moved = drift("p1:d1", START + 14, scope="stream", power=(50.0, 500.0))
    settled = output("drift_events", "p1:d1", START + 200, kind="settled", opened=0, seq=1, units=[])
    assert texts(*starts(0, 2, 3, 6), moved, settled) == []


@pytest.mark.parametrize(
    "outputs",
    [
        # It came once, at an hour of its own each time, or is another hour's.
        unlike(START, 0),
        [each for day in (0, 2, 3, 6) for each in unlike(DAY * day + START + 97 * day, day)],
        [*starts(0, 2, 3, 6), *unlike(DAY + 700, "burst", outside=0.0)],
        [*starts(0, 2, 3, 6), *unlike(DAY * 9 + 700, "new")],
        # What is far off in later weeks is news at such an hour, too.
        [*starts(0, 2, 3, 6), *unlike(DAY * 9 + START, "new", power=(9_000.0, 70.0))],
    ],
)
def test_what_is_no_start_of_a_day_is_an_incident(outputs):
    assert texts(*outputs) != []


@pytest.mark.parametrize(
    ("moves", "count"),
    [
        # Means of some hours go to and fro as on other days.
        ([(100.0, 500.0), (500.0, 100.0), (100.0, 500.0)], 0),
        # A creep only goes on.
        ([(100.0, 300.0), (300.0, 520.0), (520.0, 800.0)], 1),
    ],
)
def test_drifts_of_a_first_week_in_which_a_stream_goes_as_on_other_days_are_no_incident(moves, count):
    drifts = [
        each
        for n, move in enumerate(moves)
        for each in (
            drift("p1:d1", DAY * (n + 2) + 700, 2 * n, power=move),
            output("drift_events", "p1:d1", DAY * (n + 2) + 900, kind="settled", opened=2 * n, seq=2 * n + 1, units=[]),
        )
    ]
    assert len(texts(*starts(0, 2, 3, 6), *drifts)) >= count
    assert count or texts(*starts(0, 2, 3, 6), *drifts) == []
