"""Show the demo on the screen: sentences that scroll by, and below them a panel with the present state.

Where standard output is no terminal, the same sentences and an occasional line of progress go to standard error.
"""

from collections.abc import Sequence
from typing import Self

from resonance.pipeline.demo.story import Story, StoryLine
from resonance.pipeline.demo.telemetry import REGIONS
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

STYLES = {
    "incident": ("bold cyan", "▶"),
    "worker": ("bold red", "✖"),
    "note": ("dim", "·"),
    "change": ("bold bright_blue", "▲"),
    "alert": ("bold red", "!"),
    "emerged": ("green", "●"),
    "split": ("bold yellow", "◐"),
    "absorbed": ("bold magenta", "◑"),
    "vanished": ("red", "○"),
    "described": ("cyan", "≡"),
    "version_started": ("blue", "◆"),
    "stream_ended": ("blue", "◇"),
}
"""Style and sign of each kind of line."""

PROGRESS_SECONDS = 5.0
"""Time between two lines of progress where there is no terminal."""

_BARS = "▁▂▃▄▅▆▇█"
_SPARK = 36
_BAR = 44


class PlainView:
    """Shows a story while it happens, as lines of text, for logs and pipes."""

    def __init__(self, story: Story, console: Console) -> None:
        self._story = story
        self._console = console
        self._shown = 0
        self._progress = 0.0
        self._reported: tuple[object, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.update()

    def update(self) -> None:
        """Show what is new in the story."""
        new = self._story.log[self._shown :]
        self._shown += len(new)
        self._show(new)

    def _show(self, new: Sequence[StoryLine]) -> None:
        """Print new sentences, and every `PROGRESS_SECONDS` the progress, unless nothing has changed."""
        story = self._story
        lines = [f"{line.seconds:5.1f} s  {line.text}" for line in new]
        if story.seconds - self._progress >= PROGRESS_SECONDS:
            self._progress = story.seconds
            answered, clusters = sum(story.answered), sum(len(story.present(number)) for number in range(len(REGIONS)))
            stands = answered, story.waiting, clusters, story.worker
            if stands != self._reported:
                self._reported = stands
                lines.append(
                    f"{story.seconds:5.1f} s  {answered:,} of {len(story.telemetry):,} records answered, "
                    f"{story.rate:,.0f}/s, {story.waiting:,} waiting, {clusters} clusters; worker {story.worker}"
                )
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveView(PlainView):
    """Prints sentences above a panel that is redrawn; the console must be a terminal, which it leaves as it was."""

    def __init__(self, story: Story, console: Console) -> None:
        super().__init__(story, console)
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=lambda: panel(story))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._live.stop()

    def _show(self, new: Sequence[StoryLine]) -> None:
        if new:
            self._console.print(Group(*map(styled, new)))


def styled(line: StoryLine) -> Text:
    """Return a line of the log in its colours."""
    style, sign = STYLES[line.kind]
    return Text.assemble((f"{line.seconds:5.1f} s ", "dim"), (f"{sign} {line.text}", style))


def panel(story: Story) -> RenderableType:
    """Return the present state of a story as a panel."""
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    table.add_column("region")
    table.add_column("stream")
    for name in ("sent", "answered", "waiting", "novel", "clusters"):
        table.add_column(name, justify="right")
    table.add_column("")
    for partition, region in enumerate(REGIONS):
        delivered, answered = story.delivered[partition], story.answered[partition]
        found = len(story.present(partition))
        table.add_row(
            region,
            Text(f"p{partition}", "dim"),
            f"{delivered:,}",
            f"{answered:,}",
            Text(f"{delivered - answered:,}", "red" if delivered - answered > 500 else ""),
            f"{story.novel[partition] / answered:.1%}" if answered else "",
            str(found),
            Text("●" * found, "green"),
        )
    total = len(story.telemetry)
    done = sum(story.answered) / total
    bar = Text("━" * round(_BAR * done), "cyan") + Text("━" * (_BAR - round(_BAR * done)), "grey30")
    rate = Text.assemble(
        (f"{story.rate:>7,.0f} records/s  ", "bold"),
        (spark(story.rates[-_SPARK:]), "cyan"),
        f"  {story.waiting:,} wait",
    )
    alive = story.worker.startswith("running")
    worker = Text.assemble("worker ", (story.worker, "green" if alive else "bold red"))
    return Panel(
        Group(table, Text(), rate, Text.assemble(bar, f"  {done:.0%} of {total:,} records"), worker),
        title="Resonance: clusters of four regions' telemetry, live",
        title_align="left",
        subtitle=f"{story.seconds:.0f} s",
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="cyan" if alive else "red",
        width=100,
    )


def spark(values: Sequence[float]) -> str:
    """Return numbers as a row of bars, of which the highest is full."""
    top = max(values, default=0.0)
    return "".join(_BARS[round((len(_BARS) - 1) * value / top)] if top > 0 else _BARS[0] for value in values)
