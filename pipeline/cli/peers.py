"""What ``resonance inspect`` prints of streams that are unlike their peers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from resonance.pipeline.cli.output import cell, footnote, print_table
from resonance.pipeline.errors import counted, minute
from resonance.pipeline.stream_keys import readable

if TYPE_CHECKING:
    from resonance.pipeline.peers import peers

FEATURES = 3
"""Features of a stream that the table has; --wide and --json have them all."""

COLUMNS = ("stream", "feature", "is", "value", "peers", "usual range", "far", "since", "while")
"""The last one where something is so in one kind of work alone."""

FAR = "far: how many times as far from the peers' median as is usual; from 1.5 to 5.4 on a stream is listed"


def show(found: "peers.ComparedStreams", *, wide: bool, brief: bool = False) -> None:
    """Print the streams that are unlike their peers, and count the others; `brief` for a command with other results."""
    from resonance.pipeline.peers import profiles

    if found.streams < profiles.FEWEST_STREAMS:
        streams = counted(found.streams, "stream")
        footnote(f"--peers compares {profiles.FEWEST_STREAMS} streams or more; there are snapshots of {streams}")
        return
    rows: list[list[object]] = []
    left_out = 0
    for name in found.names:
        own = [each for each in found.unlike if each.stream == name]
        kept = own if wide else own[:FEATURES]
        left_out += len(own) - len(kept)
        for each in kept:
            since = _minute(each.since) or (_minute(each.by) and f"by {_minute(each.by)}")
            usual = f"{cell(each.low)} to {cell(each.high)}"
            figures = each.feature, each.change, each.value, each.median, usual, each.far
            rows.append([readable(name, name), *figures, since, in_words(each.where)])
    if rows:
        columns = len(COLUMNS) if any(row[-1] for row in rows) else -1
        print_table(COLUMNS[:columns], [row[:columns] for row in rows])
    if left_out:
        where = "--json" if brief else "--wide"
        footnote(f"{counted(left_out, 'more feature')} of these streams: see {where}")
    footnote(_verdict(len(found.names), found.compared) + (f"; {FAR}" if rows else ""))
    if any(map(_minute, (each.by for each in found.unlike))):
        footnote("by: it began then or earlier; older records were not compared")
    if found.kinds and not brief:
        footnote(f"kinds of work, each compared by itself, too: {'; '.join(map(in_words, found.kinds))}")
    if found.cut:
        fewer = f"fewer than {profiles.RECENT} of each stream"
        footnote(f"only the last {found.records:,} records were read, {fewer}; older ones are left out")
    if few := found.streams - found.compared:
        streams = f"{few:,} stream{'s have' if few != 1 else ' has'}"
        footnote(f"{streams} fewer than {profiles.FEWEST} of the records that were compared, and were left out")


def hint(unlike: int, compared: int) -> None:
    """Print one line where streams are unlike their peers."""
    if unlike:
        footnote(f"{_verdict(unlike, compared)}: resonance inspect --peers")


def _verdict(unlike: int, compared: int) -> str:
    """Return how many streams are unlike their peers."""
    its, are = ("their", "are") if unlike > 1 else ("its", "is")
    return f"{unlike or 'none'} of {compared:,} streams {are} unlike {its} peers in {its} recent records"


def in_words(where: "Sequence[peers.FeatureBound]") -> str:
    """Return the conditions of a kind of work, those of one feature together."""
    found = list[str]()
    for feature in dict.fromkeys(each.feature for each in where):
        above, below = (
            [each.value for each in where if (each.feature, each.side) == (feature, side)]
            for side in ("above", "up to")
        )
        low, high = (cell(max(above)) if above else ""), (cell(min(below)) if below else "")
        found.append(
            f"{feature} is " + (f"{low} to {high}" if low and high else f"above {low}" if low else f"up to {high}")
        )
    return " and ".join(found)


def _minute(time: str | None) -> str | None:
    """Return a time to the minute; records of a file may have none."""
    return minute(time) if time and time >= "1971" else None
