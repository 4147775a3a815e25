"""The pictures of a report, as addresses that hold them."""

import io
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from resonance.pipeline.evaluate.dataset import Dataset
from resonance.pipeline.evaluate.detail import NONE, OTHERS
from resonance.pipeline.evaluate.run import Run
from resonance.pipeline.watch import picture
from resonance.pipeline.watch.lifelines import StreamLife, stream_lives

TITLES: Final = {
    "ari": "agreement (ARI)",
    "f1_micro": "agreement with the labels (F1 micro)",
    "silhouette": "silhouette",
    "largest": "share of the largest cluster",
    "unanswered": "share without a cluster",
    "events": "cluster events for 1,000 records",
}
"""Figures that are drawn over the records."""

COLOURED: Final = (*picture.PALETTE[:-1], "#2F6B7C", "#A05195", "#8A8D00", "#005F96")
"""Colours of the clusters, the largest first."""

MOST_CURVES: Final = 8
"""Candidates that have a curve: the best ones."""

MOST_STREAMS: Final = 3
"""Streams whose life-lines are drawn."""

MOST_LINES: Final = 20
"""Most life-lines of a stream."""

MEASURED: Final = 100
"""Clusters with the most records, of which these are."""

STEP: Final = 3
"""Every so many points of a life-line are drawn."""

_WIDTH: Final = 7.5
_STYLE: Final = {"svg.fonttype": "none", "text.parse_math": False, "font.size": 10, "svg.hashsalt": "report"}


def curves(document: dict[str, Any]) -> str:
    """Draw some figures over the records, a line for each candidate and baseline."""
    first, by = document["candidates"][0]["windows"], document["best"]["by"]
    names = [name for name in TITLES if name in first[0] and (name != "ari" or by == name)]
    middles = np.convolve(document["windows"], [0.5, 0.5], "valid")

    def value(one: dict[str, Any]) -> float:
        found = one["figures"].get(by)
        return -np.inf if found is None else float(found)

    best = sorted(document["candidates"], key=value, reverse=True)[:MOST_CURVES]

    def draw(figure: Any) -> None:
        axes = figure.subplots(len(names), 1, sharex=True)
        for ax, name in zip(np.atleast_1d(axes), names, strict=True):
            for number, one in enumerate(best):
                values = [np.nan if window.get(name) is None else window[name] for window in one["windows"]]
                colour = picture.PALETTE[number % len(picture.PALETTE)]
                ax.plot(middles, values, color=colour, lw=1.8, marker="o", ms=3, label=one["name"])
            for one, style in zip(document["baselines"], (":", "--"), strict=False):
                values = [np.nan if window.get(name) is None else window[name] for window in one["windows"]]
                if name in one["figures"]:
                    ax.plot(middles, values, color=picture.FAINT, lw=1.2, ls=style, label=one["name"])
            _axes(ax, TITLES[name])
        figure.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
        np.atleast_1d(axes)[-1].set_xlabel("records", color=picture.INK)

    return _svg(1.6 * len(names) + 0.8, draw)


def lives(data: Dataset, run: Run, detail: dict[str, Any]) -> list[str]:
    """Draw the life-lines of the largest streams, with splits, absorptions and drifts."""
    colours = _colours([each["cluster"] for each in detail["clusters"]])
    counts = Counter(run.path[run.path >= 0].tolist())
    sizes: Counter[str] = Counter()
    for number, count in counts.items():
        sizes.update(dict.fromkeys(run.paths[number], count))
    # Only lines that may be drawn are measured.
    kept = {name for name, _ in sizes.most_common(MEASURED)}
    events = [event for _, event in run.events if event["cluster"] in kept]
    present = [each for each in run.present if each["id"] in kept]
    drifts = [event for _, event in run.drifts]
    found, _ = stream_lives(_assignments(data, run), events, drifts, present)  # type: ignore[arg-type]
    for life in found:
        life.found = len({event["cluster"] for _, event in run.events if event["stream"] == life.stream})
        life.present = sum(each["stream"] == life.stream for each in run.present)
    return [_life(life, colours) for life in found[:MOST_STREAMS]]


def _assignments(data: Dataset, run: Run) -> Iterator[dict[str, Any]]:
    """Yield what life-lines need of each assignment."""
    for at, (stream, path) in enumerate(zip(run.stream.tolist(), run.path.tolist(), strict=True)):
        if stream >= 0:
            yield {
                "stream": run.streams[stream],
                "source": data.source(at),
                "clusters": run.paths[path] if path >= 0 else (),
                "time": "1970-",
            }


def _life(life: StreamLife, colours: dict[str, str]) -> str:
    largest = sorted(life.lines, key=lambda line: -float(np.nansum(line.share)))[:MOST_LINES]
    kept = {line.name for line in largest}
    life.lines = [line for line in life.lines if line.name in kept]
    for line in life.lines:
        places = np.unique([*range(0, len(line.x), STEP), len(line.x) - 1])
        line.x, line.share = line.x[places], line.share[places]

    def draw(figure: Any) -> None:
        picture.draw_stream(figure.subplots(), life, colours)

    return _svg(0.27 * len(life.lines) + 1.6, draw)


def shares(document: dict[str, Any], detail: dict[str, Any]) -> str:
    """Draw the share of the records of each cluster, one above the other."""
    middles = np.convolve(document["windows"], [0.5, 0.5], "valid")
    found = detail["shares"]
    colours = _colours([name for name in found if name not in (OTHERS, NONE)])

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.stackplot(middles, *found.values(), colors=[colours[name] for name in found], labels=list(found), lw=0)
        figure.legend(loc="outside right upper", fontsize=9)
        ax.set(ylim=(0, 1), xlim=(middles[0], max(middles[-1], middles[0] + 1)))
        ax.set_xlabel("records", color=picture.INK)
        _axes(ax, "")

    return _svg(3.6, draw)


def _colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each cluster, the same in all pictures; `names` begin with the largest."""
    found = {name: COLOURED[number % len(COLOURED)] for number, name in enumerate(names)}
    return found | {OTHERS: picture.FAINT, NONE: picture.GRID}


def _axes(ax: Any, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=10, color=picture.INK)
    ax.grid(axis="y", color=picture.GRID, lw=0.8)
    ax.set_axisbelow(True)
    picture.plain_axes(ax)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if abs(value) >= 10 else f"{value:g}")


def _svg(height: float, draw: Any) -> str:
    """Return a picture as an address that holds it as SVG."""
    from matplotlib import rc_context  # noqa: PLC0415

    content = io.BytesIO()
    with rc_context(_STYLE):
        figure = picture.blank(_WIDTH, height)
        draw(figure)
        figure.savefig(content, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{b64encode(content.getvalue()).decode()}"
