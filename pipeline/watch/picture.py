"""Pictures of clusters by matplotlib: their life-lines, and what sets each apart."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import numpy as np
from resonance.pipeline.errors import ConfigurationError, counted, missing_extra, number, second
from resonance.pipeline.timestamps import canonical, epoch_ms
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.pipeline.watch.lifelines import LifeLine, StreamLife
from resonance.pipeline.watch.sentences import portrait
from resonance.schemas import ClusterSnapshot
from resonance.schemas.sets_apart import columns as columns_of

PALETTE: Final = ("#4C78A8", "#F58518", "#54A24B", "#B279A2", "#E45756", "#72B7B2", "#C9A227", "#9D755D", "#777777")
"""Colours of lines, in turn."""

INK, FAINT, DRIFT, GRID = "#22303C", "#9AA5B1", "#1F3FBF", "#EEF1F4"
"""Colours of text, of what is less important, of drift, and of the grid."""

SUFFIXES: Final = (".png", ".svg", ".pdf")
"""Forms of a picture."""

MOST_FEATURES: Final = 12
"""Most features of a profile; those that differ least between clusters are left out."""

MOST_NOTES: Final = 10
"""Most drift events that are described below a picture."""

_WORDS: Final = 6
# Inches.
_ROW, _LEAST, _LINES, _CELL, _NAME, _NOTE, _CHARACTER = 0.27, 2.2, 7.5, 0.62, 0.075, 0.21, 0.072
_TOP: Final = -1.0
"""Upper end of the lines and of the table, in rows: above the first line two incidents have room."""
_TITLE = "Life-lines: width = share of the records; ring = it emerged, dot = it ended, arcs = splits and absorptions, "
_TITLE += "triangles = drift.\nTable: means in the units of the input; red is above, blue below the other clusters."


def check(path: Path) -> None:
    """Raise `ConfigurationError` where a picture cannot be drawn into a file: with what to install, or another name."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigurationError(f"--picture {path}: its name must end in {', '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"--picture {path}: there is no folder {path.parent}; make it, or name another")
    if find_spec("matplotlib") is None:
        raise missing_extra("a picture", "matplotlib", "picture")


def blank(width: float, height: float) -> Any:
    """Return an empty figure, in inches."""
    from matplotlib import rcParams  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    # Names are no formulas, whatever dollars are in them.
    rcParams["text.parse_math"] = False
    # A figure without pyplot needs no window system and no global state.
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _draw_lines(ax: Any, lines: Sequence[LifeLine], colours: Mapping[str, str], records: int, widening: float) -> None:
    """Draw lines, each in its row, with their beginnings, ends and arcs; `colours` has those of the lines by id."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415

    row_of = {line.name: row for row, line in enumerate(lines)}
    for row, line in enumerate(lines):
        colour = colours[line.name]
        points = np.column_stack([line.x, np.full(len(line.x), float(row))])
        share = np.nan_to_num(line.share, nan=0.1)
        width = 1.2 + 26 * np.minimum(share * widening, 0.4)
        # A line fades where its cluster lives on without getting records.
        ax.add_collection(
            LineCollection(
                list(np.stack([points[:-1], points[1:]], axis=1)),
                colors=colour,
                linewidths=width[:-1],
                alpha=np.where(share[:-1] > 0, 0.9, 0.25),
                capstyle="round",
                zorder=3,
            )
        )
        for other, at in ((line.parent, line.born), (line.heir, line.ended)):
            if other in row_of:
                _arc(ax, at, row_of[other], row, colour, records)
        if line.born > 0:
            ax.plot(line.born, row, "o", ms=np.clip(width[0], 5, 8), mfc="white", mec=colour, mew=1.6, zorder=5)
        if line.ended < records:
            ax.plot(line.ended, row, "o", ms=np.clip(width[-1], 5, 8), color=colour, zorder=5)


def _arc(ax: Any, at: float, start: float, end: float, colour: str, records: int) -> None:
    """Draw the arc between a line and the one that it split from or was absorbed by."""
    turn = np.linspace(0, np.pi, 40)
    ax.plot(
        at - 0.018 * records * np.sin(turn),
        start + (end - start) * (1 - np.cos(turn)) / 2,
        color=colour,
        lw=2.2,
        alpha=0.9,
        zorder=4,
        solid_capstyle="round",
    )


def plain_axes(ax: Any) -> None:
    """Leave out frame and ticks."""
    ax.tick_params(colors=FAINT, length=0, labelsize=8.5)
    for side in ax.spines.values():
        side.set_visible(False)


def draw(path: Path, lives: Sequence[StreamLife], streams_left_out: int = 0, dots_per_inch: int = 110) -> None:
    """Draw streams into a file; the suffix gives its form.

    Raises `ConfigurationError` where there is nothing to draw, or the file cannot be written.
    """
    if not lives:
        raise ConfigurationError(f"--picture {path}: there is nothing to draw, no record was answered")
    figure = figure_of(lives, streams_left_out)
    try:
        figure.savefig(path, dpi=dots_per_inch)
    except OSError as error:
        raise ConfigurationError(f"--picture {path}: it cannot be written ({error.strerror}); name another") from error


def figure_of(lives: Sequence[StreamLife], streams_left_out: int = 0) -> Any:
    """Return a figure of streams one below the other: the life-lines of each, and a table of its clusters."""
    features = [_columns(life) for life in lives]
    rows = [max(len(life.lines), 1) for life in lives]
    columns = max(_WORDS if any(map(_in_words, lives)) else 0, *map(len, features)) + 1
    width = 2.2 + _LINES + _CELL * columns
    notes = [_notes(life, int((width - 2.0) / _CHARACTER)) for life in lives]
    heights = []
    for life_rows, names, texts in zip(rows, features, notes, strict=True):
        head = 0.5 + _NAME * max(map(len, map(_short, names)), default=0)
        heights += [max(_ROW * life_rows, _LEAST) + head, 0.3 + _NOTE * len(texts)]
    figure = blank(width, 0.7 + 0.5 * len(lives) + sum(heights))
    figure.get_layout_engine().set(wspace=0.0)
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=[_LINES, _CELL * columns])
    for place, (life, names, texts) in enumerate(zip(lives, features, notes, strict=True)):
        left = figure.add_subplot(grid[2 * place, 0])
        draw_stream(left, life)
        _draw_table(figure.add_subplot(grid[2 * place, 1]), life, names, columns)
        below = figure.add_subplot(grid[2 * place + 1, :])
        below.axis("off")
        where = {"transform": below.transAxes, "va": "top"}
        below.text(0, 1, "\n".join(texts), fontsize=8.5, color=INK, linespacing=1.5, **where).set_in_layout(False)
    more = f"\nLeft out: {counted(streams_left_out, 'stream')} with fewer records." if streams_left_out else ""
    figure.suptitle(_TITLE + more, fontsize=11, color=INK, x=0.01, ha="left")
    return figure


def draw_stream(ax: Any, life: StreamLife, colours: Mapping[str, str] | None = None) -> None:
    """Draw the life-lines of a stream, one below the other, with its drift events.

    `colours` has those of some clusters by id; the others have colours in turn.
    """
    for row in range(len(life.lines)):
        ax.axhline(row, color=GRID, lw=0.8, zorder=0)
    for turn, (at, text) in enumerate(life.marks):
        ax.axvline(at, color=FAINT, lw=1.0, ls=(0, (4, 3)), zorder=1)
        place = at, _TOP + 0.05 + 0.3 * (turn % 2)
        ax.annotate(text, place, xytext=(3, 0), textcoords="offset points", fontsize=7.5, color=FAINT, va="top")
    most = max((float(np.nanmax(line.share)) for line in life.lines if life.counted), default=1.0)
    _draw_lines(ax, life.lines, _colours(life) | {**(colours or {})}, life.records, min(0.4 / max(most, 1e-9), 4.0))
    row_of = {line.name: row for row, line in enumerate(life.lines)}
    foot = max(len(life.lines), 1) - 0.4
    for index, (at, event) in enumerate(_marked(life), start=1):
        height = row_of.get(event.get("cluster") or "", foot)
        ax.plot(at, height, "^", ms=8, mfc=DRIFT, mec="white", mew=1.0, zorder=6, clip_on=False)
        ax.annotate(
            str(index),
            (at, height),
            xytext=(6, 3),
            textcoords="offset points",
            fontsize=8,
            color=DRIFT,
            zorder=7,
            annotation_clip=False,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.3},
        )
    plain_axes(ax)
    ax.set_xlim(0, life.records * 1.01)
    ax.set_ylim(foot + 0.2, _TOP)
    ax.set_yticks(range(len(life.lines)), ["\u2514 " * (line.level - 1) + _label(line) for line in life.lines])
    for label, line in zip(ax.get_yticklabels(), life.lines, strict=True):
        label.set_color(INK if line.ended >= life.records else FAINT)
    places = np.linspace(0, life.records, 6)
    ax.set_xticks(places, [_tick(life, place) for place in places])
    records = f"{counted(life.records, 'record')}, " if life.counted else ""
    shown = f"; here the {len(life.lines):,} with the most records" if life.found > len(life.lines) else ""
    counts = f"{records}{life.present:,} of {counted(life.found, 'cluster')} present{shown}"
    ax.set_title(life.stream, loc="left", fontsize=12, fontweight="bold", color=INK)
    ax.set_title(counts, loc="right", fontsize=9, color=FAINT)
    if not life.lines:
        ax.text(0.5, 0.5, "no cluster yet", ha="center", color=FAINT, transform=ax.transAxes)


def _label(line: LifeLine) -> str:
    return f"{line.name}\n{_short(line.called)}" if line.called else line.name


def _tick(life: StreamLife, place: float) -> str:
    """Return the number of a record, and its time."""
    if not life.times:
        return f"{place:,.0f}"
    if not life.counted:
        return _moment(canonical(epoch_ms(life.times[0][1]) + place))
    return f"{place:,.0f}\n{_moment(min(life.times, key=lambda known: abs(known[0] - place))[1])}"


def _moment(time: str) -> str:
    return time[:16].replace("T", "\n")


def _colours(life: StreamLife) -> dict[str, str]:
    return {line.name: PALETTE[row % len(PALETTE)] for row, line in enumerate(life.lines)}


def _marked(life: StreamLife) -> list[Any]:
    return [(at, event) for at, event in life.drifts if event["kind"] == "drift"]


def _notes(life: StreamLife, width: int) -> list[str]:
    """Return what the marked drift events say, in lines of so many characters at most."""
    marked = _marked(life)
    lines = []
    for index, (_, event) in enumerate(marked[:MOST_NOTES], start=1):
        moment = second(event["time"]) if life.times else ""
        lines += wrap(f"\u25b2{index}  {moment}  {drift_sentence(event)}", width, subsequent_indent=" " * 6)
    return [*lines, f"and {len(marked) - MOST_NOTES:,} more"] if len(marked) > MOST_NOTES else lines


def _draw_table(ax: Any, life: StreamLife, names: Sequence[str], columns: int) -> None:
    """Draw a row for each line: its share of the last records, and the means of its features."""
    rows = max(len(life.lines), 1)
    ax.set_xlim(0, columns)
    ax.set_ylim(rows - 0.2, _TOP)
    plain_axes(ax)
    ax.set_yticks([])
    ax.xaxis.tick_top()
    ax.set_xticks(
        np.arange(len(names) + 1) + 0.5,
        ["recent" if life.counted else "", *map(_short, names)],
        rotation=90,
        color=INK,
    )
    shades, in_words, there = _shades(life, names), _in_words(life), _present(life)
    for row, line in enumerate(life.lines):
        present = line.ended >= life.records
        share = f"{line.recent:.0%}" if present and line.recent is not None else ""
        ax.text(0.5, row, share, ha="center", va="center", fontsize=8, color=INK)
        ink = INK if present else FAINT
        if in_words:
            text = _short(portrait(life.clusters.get(line.name), there), 60)
            ax.text(1.1, row, text, va="center", fontsize=8, color=ink)
        centre = life.clusters[line.name]["centre"] if line.name in life.clusters else {}
        for column, name in enumerate(names, start=1):
            if name not in centre:
                continue
            if present:
                shade = shades[line.name][column - 1]
                ax.add_patch(_cell(column, row, shade))
            ax.text(
                column + 0.5,
                row,
                _brief(centre[name]),
                ha="center",
                va="center",
                fontsize=7.5,
                color=ink,
            )


def _cell(column: int, row: int, shade: float) -> Any:
    """Return a cell whose colour shows how far a mean is from those of the others."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    red, blue = (0.89, 0.34, 0.34), (0.30, 0.47, 0.66)
    strength = min(abs(shade) / 2, 1.0) * 0.75
    return Rectangle((column + 0.02, row - 0.46), 0.96, 0.92, color=red if shade > 0 else blue, alpha=strength, lw=0)


def _in_words(life: StreamLife) -> bool:
    """Return whether each cluster has words or features of its own, so that there is no table of them."""
    return any("salient" in each or each.get("keywords") for each in life.clusters.values())


def _present(life: StreamLife) -> list[ClusterSnapshot]:
    lines = [line.name for line in life.lines if line.ended >= life.records]
    return [life.clusters[name] for name in lines if name in life.clusters]


def _shades(life: StreamLife, names: Sequence[str]) -> dict[str, list[float]]:
    """Return for each present cluster how far its means are from those of all, in units of how far these spread."""
    present = _present(life)
    means = np.array([[each["centre"].get(name, np.nan) for name in names] for each in present], dtype=float)
    if not means.size:
        return {each["id"]: [] for each in present}
    spreads = np.array([[each["spread"].get(name, np.nan) for name in names] for each in present], dtype=float)
    # Not by a difference that their records have among themselves.
    width = np.maximum(np.nanstd(means, axis=0), np.nanmean(spreads, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        shades = np.nan_to_num((means - np.nanmean(means, axis=0)) / width, posinf=0.0, neginf=0.0)
    return {each["id"]: row for each, row in zip(present, shades.tolist(), strict=True)}


def _columns(life: StreamLife) -> list[str]:
    """Return the features of the table."""
    present = _present(life)
    if _in_words(life):
        return []
    return columns_of(present, MOST_FEATURES)


def _short(text: str, most: int = 20) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _brief(value: float) -> str:
    """Return a number that fits a cell."""
    text = number(value)
    return text if len(text) <= 8 else f"{value:.1e}"
