"""Draw the demo as one picture: the life-lines of the clusters.

Each region is a panel and each line a cluster, from where it was found to where it ended. The height of a line is the
mean latency of the records assigned to the cluster, its width their share. Arcs between lines are splits and
absorptions, triangles drift events; incidents and the killed worker are marked.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.demo.telemetry import FEATURES, REGIONS, Telemetry
from resonance.pipeline.errors import ConfigurationError
from resonance.schemas import ClusterEvent, DriftEvent

WINDOW = 240
"""Records of the stream over which a line's height and width are averaged."""

_STEP = 30  # records between two points of a line
_PALETTE = ("#4C78A8", "#F58518", "#54A24B", "#B279A2", "#E45756", "#72B7B2", "#C9A227", "#9D755D", "#777777")
_INK, _FAINT, _KILL, _DRIFT = "#22303C", "#9AA5B1", "#D62728", "#1F3FBF"


@dataclass(slots=True)
class LifeLine:
    """The life of one cluster."""

    name: str
    """Id of the cluster."""
    kind: str
    """True kind of most of its records."""
    born: int
    """Offset of the record that caused its first event."""
    ended: int
    """Offset of the record that caused its last event; the end of the stream while the cluster lives."""
    parent: str | None = None
    """Cluster that it split from."""
    heir: str | None = None
    """Cluster that absorbed it."""
    x: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Offsets of the points of the line; one value of `height` and `share` belongs to each."""
    height: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Mean latency of the records assigned to it around each point; NaN where there are none."""
    share: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Share of the records around each point that are assigned to it."""


def lines(
    events: Sequence[ClusterEvent],
    assigned: Sequence[str | None],
    heights: NDArray[np.float64],
    truth: Sequence[str],
) -> list[LifeLine]:
    """Return the life-lines of one stream, oldest first.

    The last three arguments have a value for each record: its cluster, the feature that gives a line its height, and
    its true kind.
    """
    lives: dict[str, LifeLine] = {}
    for event in events:
        at, name = event["cause"]["source"]["offset"], event["cluster"]
        if name is None:
            continue
        if event["kind"] in ("emerged", "split"):
            lives[name] = LifeLine(name, "", at, len(assigned), parent=event.get("other"))
        elif name in lives:
            lives[name].ended, lives[name].heir = at, event.get("other")
    own = np.array([name or "" for name in assigned])
    points = np.arange(0, len(assigned) + 1, _STEP)
    for line in lives.values():
        mine = own == line.name
        line.kind = Counter(np.asarray(truth)[mine].tolist()).most_common(1)[0][0] if mine.any() else ""
        count = np.concatenate(([0], np.cumsum(mine)))
        total = np.concatenate(([0.0], np.cumsum(np.where(mine, heights, 0.0))))
        line.x = np.array([line.born, *points[(points > line.born) & (points < line.ended)], line.ended], dtype=float)
        low = np.clip(line.x - WINDOW / 2, line.born, line.ended).astype(int)
        high = np.clip(line.x + WINDOW / 2, line.born, line.ended).astype(int)
        found = count[high] - count[low]
        with np.errstate(invalid="ignore", divide="ignore"):
            line.height = np.where(found > 0, (total[high] - total[low]) / found, np.nan)
            line.share = found / np.maximum(high - low, 1)
    return list(lives.values())


def draw(
    path: Path,
    telemetry: Telemetry,
    events: Sequence[Sequence[ClusterEvent]],
    assigned: Sequence[Sequence[str | None]],
    drifts: Sequence[Sequence[DriftEvent]] = (),
    killed_at: Sequence[int] | None = None,
    dots_per_inch: int = 110,
) -> None:
    """Draw the life-lines of all regions into a PNG of 13 by 8 inches.

    `killed_at` has, by partition, the first offset answered after the kill. Raises `ConfigurationError`, with what to
    install, where matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("matplotlib") from error
    latency = FEATURES.index("latency_ms")
    lives = [
        lines(events[p], assigned[p], telemetry.values[p][:, latency], telemetry.truth[p].tolist())
        for p in range(len(REGIONS))
    ]
    kinds = list(dict.fromkeys(line.kind for region in lives for line in region if line.kind))
    colours = {kind: _PALETTE[number % len(_PALETTE)] for number, kind in enumerate(kinds)}

    # A figure without pyplot needs no window system and no global state.
    figure = Figure(figsize=(13, 8), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for partition, ax in enumerate(axes):
        _panel(ax, lives[partition], colours, telemetry.records)
        ax.set_title(f"{REGIONS[partition]}", loc="left", fontsize=12, fontweight="bold", color=_INK)
        ax.set_title(f"stream p{partition}", loc="right", fontsize=9, color=_FAINT)
        for incident in telemetry.incidents:
            if incident.partition == partition:
                _mark(ax, incident.at, incident.text.split(":")[0], _INK)
        for event in drifts[partition] if drifts else ():
            if event["kind"] == "drift":
                _triangle(ax, event, lives[partition], telemetry.records)
        if killed_at is not None:
            _mark(ax, killed_at[partition], "worker killed (SIGKILL), restarted", _KILL, low=True)
    for ax in axes[2:]:
        ax.set_xlabel("records of the region", color=_INK)
    for ax in axes[::2]:
        ax.set_ylabel("latency_ms, mean of the cluster", color=_INK)
    figure.suptitle(
        "Life-lines of the clusters: width = share of the records, arcs = splits and absorptions, triangles = drift",
        fontsize=13,
        color=_INK,
        x=0.01,
        ha="left",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dots_per_inch)


def missing_extra(module: str) -> ConfigurationError:
    """Return the error for a missing library of the extra `demo`."""
    return ConfigurationError(
        f"the demo needs {module}, which is not installed; install the extra: pip install 'resonance-streams[demo]'"
    )


def _panel(ax: Any, lives: list[LifeLine], colours: dict[str, str], records: int) -> None:
    from matplotlib.collections import LineCollection  # noqa: PLC0415

    by_name = {line.name: line for line in lives}
    labels = []
    for line in lives:
        colour = colours.get(line.kind, _FAINT)
        seen = ~np.isnan(line.height)
        if not seen.any():
            continue
        x, height = line.x, np.interp(line.x, line.x[seen], line.height[seen])
        points = np.column_stack([x, height])
        width = 1.2 + 26 * np.minimum(line.share, 0.4)
        segments = np.stack([points[:-1], points[1:]], axis=1)
        # A line fades where its cluster lives on without getting records.
        alpha = np.where(line.share[:-1] > 0, 0.9, 0.25)
        ax.add_collection(
            LineCollection(
                list(segments), colors=colour, linewidths=width[:-1], alpha=alpha, capstyle="round", zorder=3
            )
        )
        for other, at, mine in ((line.parent, line.born, height[0]), (line.heir, line.ended, height[-1])):
            if other in by_name:
                _arc(ax, at, _height_at(by_name[other], at), mine, colour, records)
        ax.plot(line.born, height[0], "o", ms=5, mfc="white", mec=colour, mew=1.6, zorder=5)
        if line.ended < records:
            ax.plot(line.ended, height[-1], "o", ms=5, color=colour, zorder=5)
            ax.annotate(
                line.name,
                (line.born, height[0]),
                xytext=(6, 7),
                textcoords="offset points",
                fontsize=8.5,
                color=colour,
                zorder=6,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
            )
        else:
            labels.append((float(height[-1]), f"{line.name}  {line.kind}", colour))
    labels.sort()
    for (level, text, colour), place in zip(labels, _apart([label[0] for label in labels]), strict=True):
        ax.annotate(
            text,
            (records, level),
            xytext=(records * 1.02, place),
            fontsize=8.5,
            color=colour,
            va="center",
            annotation_clip=False,
        )
    ax.set_xlim(0, records * 1.24)
    ax.set_ylim(0, 1120)
    ax.set_xticks(np.linspace(0, records, 4))
    ax.grid(axis="y", color="#EEF1F4", lw=0.8)
    ax.tick_params(colors=_FAINT, length=0, labelsize=8.5)
    for side in ax.spines.values():
        side.set_visible(False)


def _height_at(line: LifeLine, offset: float) -> float:
    seen = ~np.isnan(line.height)
    return float(np.interp(offset, line.x[seen], line.height[seen])) if seen.any() else float("nan")


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


def _mark(ax: Any, at: float, text: str, colour: str, *, low: bool = False) -> None:
    ax.axvline(at, color=colour, lw=1.1, ls=(0, (4, 3)), alpha=0.75, zorder=1)
    ax.annotate(
        text,
        (at, 0.02 if low else 0.985),
        xycoords=("data", "axes fraction"),
        xytext=(5, 0),
        textcoords="offset points",
        va="bottom" if low else "top",
        fontsize=8.5,
        color=colour,
        zorder=7,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0},
    )


def _triangle(ax: Any, event: DriftEvent, lives: list[LifeLine], records: int) -> None:
    """Mark a drift event on the line of its cluster; one of the whole stream at the foot of the panel."""
    at = event["cause"]["source"]["offset"]
    line = next((line for line in lives if line.name == event.get("cluster")), None)
    height = 0.0 if line is None else _height_at(line, at)
    ax.plot(min(at, records), height, "^", ms=8, mfc=_DRIFT, mec="white", mew=1.0, zorder=6, clip_on=False)


def _apart(heights: Sequence[float], least: float = 46.0) -> list[float]:
    """Return sorted label heights moved apart so that no two are nearer than `least`."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + least) if places else height)
    return places
