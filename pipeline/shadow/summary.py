"""The comparison of two deployments as one JSON document, from which tables and the report are made."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import numpy as np
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import counted
from resonance.pipeline.evaluate import pictures, tables
from resonance.pipeline.evaluate.dataset import Dataset
from resonance.pipeline.evaluate.detail import confusion, largest_of
from resonance.pipeline.evaluate.figures import AGREEMENT, Yardstick, microseconds
from resonance.pipeline.evaluate.report import PagePart, Report, confusion_table
from resonance.pipeline.evaluate.run import Run
from resonance.pipeline.evaluate.tables import Table, shown
from resonance.pipeline.inspect import originals
from resonance.pipeline.inspect.listing import read_states
from resonance.pipeline.shadow.comparison import Pairs, RecordedBoth, agreeing, pairs_of
from resonance.schemas.common import place_text

MOST_RECORDS: Final = 20
"""Records that disagree most, of which these are listed."""

MOST_PAIRS: Final = 1_000
"""Pairs of clusters with the most records, of which these are listed."""

MOST_RANGES: Final = 10
"""Partitions whose offsets the report lists."""

SHOWN_CLUSTERS: Final = 20
"""Clusters of the first deployment with the most records, of which these are in the table."""


def document(
    both: tuple[DeploymentContext, DeploymentContext],
    found: RecordedBoth,
    command: str,
    learned: Sequence[Run] = (),
    *,
    contents: bool = False,
) -> dict[str, Any]:
    """Return everything that is known of two deployments; `command` compares them again.

    `learned` are the runs of both from which the cost is known. With `contents` the records that disagree most are
    read.
    """
    data, names = found.data, [one.settings.name for one in both]
    yardstick = Yardstick(data, both[0].settings)
    deployments = []
    for number, (one, run) in enumerate(zip(both, found.runs, strict=True)):
        whole, windows = yardstick.whole(run), yardstick.by_window(run)
        if one is both[0]:
            # It agrees with itself.
            whole, *windows = (
                {name: each[name] for name in each if name not in AGREEMENT} for each in (whole, *windows)
            )
        # They are not on Kafka.
        whole |= {"microseconds": microseconds(learned[number]) if learned else None, "bytes": _bytes_of(one)}
        kinds = Counter(event["kind"] for _, event in run.events)
        deployments.append(
            {"name": one.settings.name, "engine": one.settings.engine.name, "figures": whole}
            | {"windows": windows, "events": dict(sorted(kinds.items()))}
        )
    pairs = pairs_of(*found.runs)
    disagreeing = _disagreeing(pairs, data, *found.runs)
    if contents:
        _add_contents(both[0], disagreeing)
    return {
        "names": names,
        "command": command,
        "resonance": version("resonance-streams"),
        "records": len(data),
        "compared": len(pairs.records),
        "ranges": [
            {"topic": topic, "partition": partition, "from": begin, "to": end}
            for (topic, partition), (begin, end) in found.ranges.items()
        ],
        "windows": yardstick.bounds.tolist(),
        "deployments": deployments,
        "agreeing": agreeing(pairs, *found.runs),
        "clusters": _pairs(pairs, *found.runs),
        "disagreeing": disagreeing,
    }


def _add_contents(one: DeploymentContext, disagreeing: Sequence[dict[str, Any]]) -> None:
    """Add key and value to each record of a list, or why they are missing; `one` reads the same input."""
    with one.reader() as reader:
        for each in disagreeing:
            each.update(originals.content_of(*originals.read_original(reader, each, one.settings), one.settings))


def _bytes_of(one: DeploymentContext) -> int:
    """Return the size of a deployment's models as its snapshots have them."""
    with one.reader() as reader:
        return sum(len(snapshot.body) for state in read_states(one, reader) for snapshot in state.streams)


def _pairs(pairs: Pairs, first: Run, second: Run) -> list[dict[str, Any]]:
    """Return the pairs of clusters with the most records, largest first."""
    chosen = np.argsort(-pairs.both, kind="stable")[:MOST_PAIRS].tolist()
    overlap, agree = pairs.overlap, pairs.agree
    return [
        {
            "clusters": [_name(first, pairs.first[each]), _name(second, pairs.second[each])],
            "sizes": [int(size[each]) for size in pairs.sizes],
            "both": int(pairs.both[each]),
            "overlap": float(overlap[each]),
            "agree": bool(agree[each]),
        }
        for each in chosen
    ]


def _disagreeing(pairs: Pairs, data: Dataset, first: Run, second: Run) -> list[dict[str, Any]]:
    """Return the records whose two clusters have the fewest records in common, the earliest of equal ones first."""
    overlap = pairs.overlap[pairs.of]
    chosen = np.argsort(overlap, kind="stable")[:MOST_RECORDS].tolist()
    found = []
    for each in chosen:
        pair, record = pairs.of[each], pairs.records[each]
        if overlap[each] < 1:
            names = [_name(first, pairs.first[pair]), _name(second, pairs.second[pair])]
            found.append({**data.source(record), "clusters": names, "overlap": float(overlap[each])})
    return found


def _name(run: Run, number: int) -> str | None:
    return run.names[number] if number < len(run.names) else None


def all_tables(document: Mapping[str, Any]) -> list[Table]:
    """Return the tables of a document: figures, events, clusters, and the records that disagree most."""
    first, second = document["names"]
    found = [
        Table(title, ("deployment", *columns[1:]), rows)
        for title, columns, rows in tables.tables({"candidates": document["deployments"], "baselines": []})
    ]
    kinds = sorted({kind for one in document["deployments"] for kind in one["events"]})
    if kinds:
        rows = [[one["name"], *(one["events"].get(kind, 0) for kind in kinds)] for one in document["deployments"]]
        found.append(Table("events", ("deployment", *kinds), rows))
    best: dict[str | None, Mapping[str, Any]] = {}
    for pair in document["clusters"]:
        name = pair["clusters"][0]
        if name is not None and (name not in best or pair["overlap"] > best[name]["overlap"]):
            best[name] = pair
    largest = sorted(best.values(), key=lambda pair: -pair["sizes"][0])[:SHOWN_CLUSTERS]
    columns = (f"cluster of {first}", "records", f"most like it of {second}", "records", "in both", "overlap", "agree")
    rows = [
        [
            pair["clusters"][0],
            pair["sizes"][0],
            pair["clusters"][1] or "none",
            pair["sizes"][1],
            pair["both"],
            shown("overlap", pair["overlap"]),
            "yes" if pair["agree"] else "",
        ]
        for pair in largest
    ]
    found.append(Table("clusters", columns, rows))
    if document["disagreeing"]:
        rows = [
            [
                place_text(one),
                *(name or "none" for name in one["clusters"]),
                shown("overlap", one["overlap"]),
            ]
            for one in document["disagreeing"]
        ]
        found.append(Table("records that disagree most", ("record", first, second, "overlap"), rows))
    return found


def content_of(record: Mapping[str, Any]) -> str:
    """Return what a record contains, cut where it is long, or why it cannot be read."""
    return str(record["missing"]) if record["missing"] else originals.shown(record["value"])


def sentence(document: Mapping[str, Any]) -> str:
    """Return how far the deployments agree."""
    first, second = document["names"]
    figures = document["deployments"][1]["figures"]
    clusters = document["deployments"][0]["figures"]["clusters"]
    ari = "unknown" if figures["ari"] is None else f"{figures['ari']:.3f}"
    return (
        f"{document['compared']:,} of {document['records']:,} records have an answer of both: ARI {ari}; "
        f"{len(document['agreeing']):,} of {clusters:,} clusters of {first} agree with one of {second}"
    )


def report(found: RecordedBoth, document: dict[str, Any]) -> Report:
    """Return the comparison as a report."""
    first, second = document["names"]
    figures, *others = all_tables(document)
    # The second is the one that has an agreement.
    drawn = {**document, "candidates": document["deployments"][::-1], "baselines": [], "best": {"by": "ari"}}
    confused = confusion_table(confusion(found.data, found.runs[1], largest_of(found.runs[1])))
    shown = [f"{one['topic']}[{one['partition']}] {one['from']:,} to {one['to']:,}" for one in document["ranges"]]
    contents = [[place_text(one), content_of(one)] for one in document["disagreeing"] if "missing" in one]
    parts = [
        PagePart(tables=[figures]),
        PagePart("Figures over the records", pictures=[pictures.curves(drawn)]),
        PagePart("Records by cluster", [f"Rows: clusters of {second}; columns: clusters of {first}."], [confused]),
        *(PagePart(each.title.capitalize(), tables=[each]) for each in others),
        PagePart("What these records contain", tables=[Table("", ("record", "value"), contents)] if contents else []),
    ]
    ranges = ", ".join(shown[:MOST_RANGES] + ["..."] * (len(shown) > MOST_RANGES))
    facts = f"{counted(document['records'], 'record')}: {ranges}"
    return Report(document, f"{second} beside {first}", facts, sentence(document), parts)
