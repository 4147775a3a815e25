"""Report of the demo: outputs compared with an uninterrupted replay, clusters with the truth, and the files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.demo.story import Story
from resonance.pipeline.demo.telemetry import REGIONS, START_MS, Telemetry
from resonance.pipeline.incidents.incidents import COLUMNS, row_of
from resonance.pipeline.records import Message, Outputs, Record
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.pipeline.watch.lifelines import StreamLife, stream_lives
from resonance.pipeline.watch.sentences import sentence
from resonance.schemas import ClusterEvent, ClusterTable, DriftEvent, Incident
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

REPLAY_BATCH = 1000
"""Records in a batch of the replay; the worker had other batches, and the bits are the same."""

Event = TypeVar("Event", ClusterEvent, DriftEvent)

_LAST = 20  # the last twentieth of the records shows which kinds there are at the end


@dataclass(frozen=True, slots=True)
class Comparison:
    """Number of outputs of one kind, compared with those of a replay."""

    expected: int
    """Outputs of the replay."""
    identical: int
    """Of these, the ones that the worker wrote with the same key, value and headers."""
    missing: int
    """Of these, the ones that the worker did not write, or not so."""
    unexpected: int
    """Outputs of the worker that the replay does not have, or not so."""

    @property
    def exact(self) -> bool:
        """Whether worker and replay wrote the same outputs."""
        return not self.missing and not self.unexpected


@dataclass(frozen=True, slots=True)
class RegionQuality:
    """How the clusters of a region compare with the truth."""

    region: str
    found: int
    """Clusters present at the end."""
    true: int
    """Kinds of requests present at the end."""
    ari: float | None
    """Adjusted Rand index of the answers, each given before its record was learned; none without scikit-learn."""
    ari_second_half: float | None
    """The same index for the second half of the records."""


def replay(settings: Settings, telemetry: Telemetry) -> list[Outputs]:
    """Return the outputs of uninterrupted partition tasks for the script, by partition."""
    topic = settings.input.topics[0]
    results = []
    for partition in range(len(REGIONS)):
        task = PartitionTask(settings, topic, partition)
        merged = Outputs()
        samples = (telemetry.sample(partition, offset) for offset in range(telemetry.records))
        # The records carry their own time, so Kafka's does not matter.
        log = [Record(topic, partition, i, START_MS, each.key, each.value) for i, each in enumerate(samples)]
        for first in range(0, len(log), REPLAY_BATCH):
            merged.add(task.process(log[first : first + REPLAY_BATCH]))
        results.append(merged)
    return results


def compare(expected: Sequence[Sequence[Message]], written: Sequence[Sequence[Message]]) -> Comparison:
    """Compare the outputs of a replay with those on the bus, without repeats; both by partition."""
    wanted, found = (
        Counter((number, each.key, each.value, *each.headers) for number, part in enumerate(parts) for each in part)
        for parts in (expected, written)
    )
    identical = (wanted & found).total()
    return Comparison(wanted.total(), identical, wanted.total() - identical, found.total() - identical)


def quality(story: Story, rated: bool = True) -> list[RegionQuality]:
    """Compare the clusters of each region with the truth, `rated` by an index of scikit-learn."""
    if rated:
        from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415

    telemetry, half = story.telemetry, story.telemetry.records // 2
    rows = []
    for partition, region in enumerate(REGIONS):
        truth = telemetry.truth[partition]
        answers = [name or "" for name in story.assigned[partition]]
        rows.append(
            RegionQuality(
                region,
                len(story.present(partition)),
                len(set(truth[-max(len(truth) // _LAST, 1) :].tolist())),
                float(adjusted_rand_score(truth, answers)) if rated else None,
                float(adjusted_rand_score(truth[half:], answers[half:])) if rated else None,
            )
        )
    return rows


def write_results(folder: Path, written: Mapping[str, Sequence[Sequence[Message]]]) -> None:
    """Write the worker's outputs as JSON lines, a file for each name, by partition, in order."""
    for name, outputs in written.items():
        with (folder / name).open("wb") as file:
            for partition in outputs:
                file.writelines((message.value or b"null") + b"\n" for message in partition)


def lives_of(story: Story, assignments: Sequence[Sequence[Message]], killed_at: Sequence[int]) -> list[StreamLife]:
    """Return what a picture shows of each region; `killed_at` has its first offset that was answered after the kill."""
    lives, _ = stream_lives(
        (orjson.loads(message.value or b"") for part in assignments for message in part),
        (event for part in story.events for event in part),
        (event for part in story.drifts for event in part),
        ({**each, "stream": f"p{number}"} for number in range(len(REGIONS)) for each in story.present(number)),
    )
    lives.sort(key=lambda life: life.stream)
    for number, life in enumerate(lives):
        marks = [(each.at, each.text.split(":")[0]) for each in story.telemetry.incidents if each.partition == number]
        life.marks = [*marks, *([(killed_at[number], "worker killed")] if killed_at else [])]
        life.stream = f"{REGIONS[number]}, stream p{number}"
    return lives


def incident_table(incidents: Sequence[Incident]) -> RenderableType:
    """Return a table of the incidents."""
    table = Table(
        box=box.SIMPLE_HEAD, title="The incidents, the newest first, as in resonance alerts", title_justify="left"
    )
    for name in COLUMNS:
        table.add_column(name)
    for each in incidents:
        table.add_row(*map(Text, row_of(each)))
    return table


def outcome_table(story: Story) -> RenderableType:
    """Return a table of what happened to each region, beside what the events reported."""
    table = Table(box=box.SIMPLE_HEAD, title="What happened, and what the events reported", title_justify="left")
    table.add_column("region", style="bold")
    table.add_column("what happened", style="cyan")
    table.add_column("cluster events, and drift events (▲)")
    for partition, region in enumerate(REGIONS):
        incidents = [incident for incident in story.telemetry.incidents if incident.partition == partition]
        bounds = [0, *(incident.at for incident in incidents), story.telemetry.records]
        texts = ["as usual", *(incident.text for incident in incidents)]
        for part, text in enumerate(texts):
            here = bounds[part], bounds[part + 1]
            lines = [sentence(event) for event in _between(story.events[partition], *here)]
            if part == 0:
                lines = [f"{len(lines)} events, until {_present(story, partition, bounds[1])} clusters were known"]
            lines += [f"▲ {drift_sentence(event)}" for event in _between(story.drifts[partition], *here)]
            table.add_row(f"{region}, p{partition}" if part == 0 else "", text, "\n".join(lines) or "none")
    return table


def _between(events: Sequence[Event], start: int, stop: int) -> list[Event]:
    return [event for event in events if start <= event["cause"]["source"]["offset"] < stop]


def _present(story: Story, partition: int, offset: int) -> int:
    table = ClusterTable(strict=False)
    for event in _between(story.events[partition], 0, offset):
        table.apply(event)
    return len(table.clusters())


def verdict(
    compared: Mapping[str, Comparison], repeats: int, rows: Sequence[RegionQuality], seconds: float
) -> RenderableType:
    """Return the figures of the demo for the screen."""
    table = Table(box=box.SIMPLE_HEAD, title="Clusters found at the end, beside the truth", title_justify="left")
    table.add_column("region", style="bold")
    halves = [row.ari_second_half for row in rows if row.ari_second_half is not None]
    for name in ("found", "true", *(("ARI", "ARI, second half") if halves else ())):
        table.add_column(name, justify="right")
    for row in rows:
        indices = [f"{each:.3f}" for each in (row.ari, row.ari_second_half) if each is not None]
        table.add_row(row.region, str(row.found), str(row.true), *indices)
    mean = ["", f"{sum(halves) / len(halves):.3f}"] if halves else []
    table.add_row("all", str(sum(r.found for r in rows)), str(sum(r.true for r in rows)), *mean, style="dim")
    note = "ARI is prequential: each answer was given before its record was learned. " if halves else ""
    return Group(
        table,
        *(_compared(what, result) for what, result in compared.items()),
        Text(f"  {_repeated(repeats)}", "dim"),
        Text(f"  {note}{seconds:.0f} s in all", "dim"),
    )


def _repeated(repeats: int) -> str:
    if not repeats:
        return "no output came twice, although delivery here is at least once: the kill left none half done"
    return f"{repeats:,} outputs came twice, byte for byte (delivery here is at least once); dropped"


def _compared(what: str, result: Comparison) -> Text:
    text = f"{result.identical:,} of {result.expected:,} {what} are identical to an uninterrupted replay"
    if result.exact:
        return Text.assemble(("✔ ", "bold green"), (text, "bold"))
    gone = f"; {result.missing:,} missing or different, {result.unexpected:,} too many"
    return Text.assemble(("✖ ", "bold red"), (text + gone, "bold red"))


def as_json(
    compared: Mapping[str, Comparison],
    repeats: int,
    rows: Sequence[RegionQuality],
    seconds: float,
    incidents: Sequence[Incident],
) -> bytes:
    """Return the figures of the demo for programs."""
    return orjson.dumps(
        {
            **{what.replace(" ", "_"): result for what, result in compared.items()},
            "repeats": repeats,
            "regions": rows,
            "incidents": incidents,
            "seconds": seconds,
        },
        option=orjson.OPT_INDENT_2,
    )
