"""A picture of many clusters can be read."""

from itertools import combinations

import numpy as np
import pytest
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.watch import picture
from resonance.pipeline.watch.lifelines import LifeLine, StreamLife

from tests.night import at_night


def life(count, features=8, *, drifts=12, level=1, salient=False, counted=True):
    """A stream of many clusters, of which each third has ended."""
    records, random = 9_000, np.random.default_rng(count)
    lines, clusters = [], {}
    for number in range(count):
        name = f"sensors-of-the-plant/1/{number}"
        born = 100 * number % records
        line = LifeLine(name, born, records if number % 3 else min(born + 2_000, records - 1), 1 + number % level)
        line.parent = f"sensors-of-the-plant/1/{number - 1}" if number % 5 == 1 else None
        line.x = np.linspace(line.born, line.ended, 20)
        line.share = random.random(20) / count if counted else np.full(20, np.nan)
        line.recent = 1 / count if counted else None
        centre = {f"a feature with a long name {n}": random.normal() * 10.0 ** (n - 3) for n in range(features)}
        clusters[name] = {"id": name, "size": 9, "centre": centre, "spread": dict.fromkeys(centre, 0.1), "nodes": 1}
        if salient:
            clusters[name]["salient"] = [{"feature": f, "salience": 0.5, "weight": 0.5} for f in centre]
        lines.append(line)
    drift = {"kind": "drift", "stream": "s", "cluster": None, "detector": "d", "value": 1.0, "threshold": 0.5}
    drift |= {"time": "2026-01-05T08:00:00.000Z"}
    changes = [(700 * n, drift | {"criterion": "some " * 60 if n % 2 else "c"}) for n in range(drifts)]
    times = [(0, "2026-01-05T08:00:00.000Z"), (records, "2026-01-09T08:00:00.000Z")]
    present = sum(line.ended == records for line in lines)
    return StreamLife("sensors-of-the-plant", records, lines, count + 4, present, clusters, changes, times, counted)


def texts(figure):
    """The boxes of all texts of a figure that are seen, but the numbers of the triangles."""
    figure.canvas.draw()
    found = {}
    for artist in figure.findobj(lambda each: hasattr(each, "get_text") and hasattr(each, "get_window_extent")):
        text = artist.get_text().strip()
        if text and artist.get_visible() and not (text.isdigit() and artist.get_color() == picture.DRIFT):
            found[artist] = artist.get_window_extent()
    return found


@pytest.mark.parametrize(
    "lives",
    [
        *map(at_night, ([life(3)], [life(12, features=30)])),
        *([life(60, features=3)], [life(12, level=3)]),
        [life(9, salient=True)],
        *([life(5), life(2, features=2, drifts=0)], [life(4, counted=False)]),
    ],
    ids=["3", "12", "60", "tree", "words", "two streams", "no records"],
)
def test_no_text_lies_over_another_or_beyond_the_edge(lives):
    figure = picture.figure_of(lives)
    boxes = texts(figure)
    whole = figure.bbox
    for artist, box in boxes.items():
        assert box.x0 >= whole.x0 - 1 and box.x1 <= whole.x1 + 1, artist.get_text()
        assert box.y0 >= whole.y0 - 1 and box.y1 <= whole.y1 + 1, artist.get_text()
    over = [(a.get_text(), b.get_text()) for a, b in combinations(boxes, 2) if crosses(boxes[a], boxes[b])]
    assert over == []
    shown = {artist.get_text().lstrip("\u2514 ") for artist in boxes}
    assert {line.name for each in lives for line in each.lines} <= shown


def crosses(one, other, least=1.0):
    """Whether two boxes have more than a margin in common."""
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return wide > least and high > least


def test_the_ticks_name_records_and_their_times_or_the_time_alone():
    def ticks(shown):
        return [label.get_text() for label in picture.figure_of([shown]).axes[0].get_xticklabels()]

    counted, timed, without = life(3), life(3, counted=False), life(3)
    without.times = []
    timed.records = 10 * 3_600_000
    assert ticks(counted)[::5] == ["0\n2026-01-05\n08:00", "9,000\n2026-01-09\n08:00"]
    assert ticks(timed)[:2] == ["2026-01-05\n08:00", "2026-01-05\n10:00"]
    assert ticks(without)[:2] == ["0", "1,800"]


def test_the_rows_of_the_table_are_those_of_the_lines():
    figure = picture.figure_of([life(12)])
    figure.canvas.draw()
    lanes, table, *_ = figure.axes
    for row in (0, 5, 11):
        assert lanes.transData.transform((0, row))[1] == pytest.approx(table.transData.transform((0, row))[1], abs=0.5)


def test_the_table_names_the_recent_share_as_inspect_does():
    shown, unknown = (picture.figure_of([life(3, counted=counted)]).axes[1] for counted in (True, False))
    assert [shown.get_xticklabels()[0].get_text(), unknown.get_xticklabels()[0].get_text()] == ["recent", ""]
    assert "33%" in [text.get_text() for text in shown.texts]


def test_cells_are_coloured_only_where_clusters_differ_by_more_than_their_records_do():
    one = life(4, features=2, drifts=0)
    one.lines = [line for line in one.lines if line.ended == one.records]
    for n, line in enumerate(one.lines):
        one.clusters[line.name]["centre"] = {"x": 100.0 * n, "y": 5.0 + n / 1_000}
        one.clusters[line.name]["spread"] = {"x": 1.0, "y": 1.0}
    shades = np.array(list(picture._shades(one, ["x", "y"]).values()))
    assert np.abs(shades[:, 0]).max() >= 1
    assert np.abs(shades[:, 1]).max() < 0.01


def test_a_name_with_dollars_is_no_formula(tmp_path):
    drawn = life(2)
    drawn.stream = drawn.lines[0].name = r"$\frac{$"
    picture.draw(tmp_path / "a.svg", [drawn])


def test_a_stream_without_clusters_is_drawn_too(tmp_path):
    for suffix in picture.SUFFIXES:
        picture.draw(tmp_path / f"a{suffix}", [life(0)], 3)
        assert (tmp_path / f"a{suffix}").stat().st_size > 1_000


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"a\.png: it cannot be written \(Is a directory\)"):
        (tmp_path / "a.png").mkdir()
        picture.draw(tmp_path / "a.png", [life(0)])
