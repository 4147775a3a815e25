"""A change that is over is one incident, with the way back as its end."""

import pytest
from resonance.pipeline.incidents.incidents import row_of

from tests.pipeline.incidents.outputs import alert, drift, emerged, incidents, named, output

THERE, BACK = 3_000, 6_000
"""Minutes at which a machine goes on with less load, and with as much as before."""


def settled(stream, minute, of, **moves):
    """The end of a drift, whose features have another mean since."""
    kind, made = drift(stream, minute, seq=of + 1, **moves)
    made.pop("since")
    return kind, {**made, "kind": "settled", "opened": of}


def shown(stream, minute, number, unlike, moves, late):
    """A change: records unlike all before, a drift of what went first and at its end of what followed, a cluster."""
    opened = named(alert(stream, minute, records=4.0, unlike=4.0), **unlike)
    ends = {"outside": float(len(unlike)), "unlike": 40.0, "records": 60.0}
    cleared = alert(stream, minute + 40, kind="cleared", **ends)
    new = alert(stream, minute + 80, "new_cluster", severity="info", share=1.0)
    new[1]["cluster"] = f"{stream}/1/{number}"
    for made in (opened, cleared, new):
        made[1]["key"] += str(number)
    came = emerged(stream, minute + 15, number, **{name: value for name, (value, _) in unlike.items()})
    began = drift(stream, minute + 30, seq=2 * number, **moves)
    return [opened, cleared, began, came, new, settled(stream, minute + 500, 2 * number, **moves, **late)]


def there_and_back(stream="p1:d1", back=100.0, on_the_way=40.0, **others):
    """What a machine shows whose gas follows its load by and by: back at its load it is unlike all before."""
    there = shown(stream, THERE, 1, {"load": (50.0, 100.0)}, {"load": (100.0, 50.0)}, {"gas": (90.0, 40.0)})
    way = {"gas": (on_the_way, 90.0)}
    return [*there, *shown(stream, BACK, 2, way, {"load": (50.0, back), **others}, {"gas": (40.0, 90.0)})]


@pytest.mark.parametrize("streams", [1, 4])
@pytest.mark.parametrize("order", [1, -1])
def test_a_change_that_is_over_is_one_incident(streams, order):
    (found,) = incidents(*there_and_back()[::order], streams=streams)
    assert (row_of(found)[1], found["signs"], found["drifts"]) == ("over", 6, 2)
    assert " since 2026-05-08 01:5" in found["text"] or " broke 2026-05-08 01:5" in found["text"]
    assert "load 50, usually " in found["text"] and "; over since 2026-05-10 03:5" in found["text"]


def test_a_change_of_all_streams_that_is_over_is_one_incident():
    (found,) = incidents(*(each for n in range(4) for each in there_and_back(f"p{n % 2}:d{n}")))
    assert (len(found["streams"]), row_of(found)[1]) == (4, "over")


@pytest.mark.parametrize("other", [{"back": 160.0}, {"back": 70.0}, {"on_the_way": 200.0}, {"noise": (1.0, 9.0)}])
def test_what_goes_elsewhere_or_shows_more_than_a_way_back_is_another_incident(other):
    found = incidents(*there_and_back(**other), streams=1)
    assert len(found) == 2


def test_while_the_way_back_is_under_way_it_is_an_incident():
    """Its alert is open, and no drift has been seen."""
    opened, *_ = shown("p1:d1", BACK, 2, {"gas": (40.0, 90.0)}, {"load": (50.0, 100.0)}, {})
    made = [each for each in there_and_back() if each[1]["time"] < output("", "p1:d1", BACK)[1]["time"]]
    assert len(incidents(*made, opened, streams=1)) == 2
