"""Draw the demo as one picture: the life-lines of the clusters.

Each region is a panel and each line a cluster, from where it was found to where it ended. The height of a line is the
mean latency of the records assigned to the cluster, its width their share. Arcs between lines are splits and
absorptions, triangles drift events; incidents and the killed worker are marked.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.demo.telemetry import FEATURES, REGIONS, Telemetry
from resonance.pipeline.watch import picture
from resonance.pipeline.watch.lifelines import LifeLine, births_and_ends
from resonance.schemas import ClusterEvent, DriftEvent

_KILL = "#D62728"


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
    lives = births_and_ends(events, lambda event: event["cause"]["source"]["offset"], len(assigned))
    own = np.array([name or "" for name in assigned])
    for line in lives.values():
        mine = own == line.name
        line.kind = Counter(np.asarray(truth)[mine].tolist()).most_common(1)[0][0] if mine.any() else ""
        line.measure(mine, heights)
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

    `killed_at` has, by partition, the first offset answered after the kill.
    """
    latency = FEATURES.index("latency_ms")
    lives = [
        lines(events[p], assigned[p], telemetry.values[p][:, latency], telemetry.truth[p].tolist())
        for p in range(len(REGIONS))
    ]
    kinds = list(dict.fromkeys(line.kind for region in lives for line in region if line.kind))
    colours = {kind: picture.PALETTE[number % len(picture.PALETTE)] for number, kind in enumerate(kinds)}

    figure = picture.blank(13, 8)
    axes = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for partition, ax in enumerate(axes):
        _panel(ax, lives[partition], colours, telemetry.records)
        ax.set_title(f"{REGIONS[partition]}", loc="left", fontsize=12, fontweight="bold", color=picture.INK)
        ax.set_title(f"stream p{partition}", loc="right", fontsize=9, color=picture.FAINT)
        for incident in telemetry.incidents:
            if incident.partition == partition:
                _mark(ax, incident.at, incident.text.split(":")[0], picture.INK)
        for event in drifts[partition] if drifts else ():
            if event["kind"] == "drift":
                _triangle(ax, event, lives[partition], telemetry.records)
        if killed_at is not None:
            _mark(ax, killed_at[partition], "worker killed (SIGKILL), restarted", _KILL, low=True)
    for ax in axes[2:]:
        ax.set_xlabel("records of the region", color=picture.INK)
    for ax in axes[::2]:
        ax.set_ylabel("latency_ms, mean of the cluster", color=picture.INK)
    figure.suptitle(
        "Life-lines of the clusters: width = share of the records, arcs = splits and absorptions, triangles = drift",
        fontsize=13,
        color=picture.INK,
        x=0.01,
        ha="left",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dots_per_inch)


def _panel(ax: Any, lives: list[LifeLine], colours: dict[str, str], records: int) -> None:
    picture.draw_lines(ax, lives, {line.name: colours.get(line.kind, picture.FAINT) for line in lives}, records)
    labels = []
    for line in lives:
        colour = colours.get(line.kind, picture.FAINT)
        if np.isnan(line.height).all():
            continue
        if line.ended < records:
            ax.annotate(
                line.name,
                (line.born, picture.height_at(line, line.born)),
                xytext=(6, 7),
                textcoords="offset points",
                fontsize=8.5,
                color=colour,
                zorder=6,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
            )
        else:
            labels.append((picture.height_at(line, line.ended), f"{line.name}  {line.kind}", colour))
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
    ax.grid(axis="y", color=picture.GRID, lw=0.8)
    picture.plain_axes(ax)


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
    picture.triangle(ax, min(at, records), 0.0 if line is None else picture.height_at(line, at))


def _apart(heights: Sequence[float], least: float = 46.0) -> list[float]:
    """Return sorted label heights moved apart so that no two are nearer than `least`."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + least) if places else height)
    return places
