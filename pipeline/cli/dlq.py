"""``resonance dlq``: the records that could not be used."""

import re
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import orjson
import typer
from resonance.pipeline.cli import plans
from resonance.pipeline.cli.options import PLACE, CommandApp, Depends, Json, injected, load, load_outputs
from resonance.pipeline.cli.output import footnote, print_json, print_line, print_table, progress, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError, counted, nearest
from resonance.schemas import DeadLetterClass, DeadLetterStage, common

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.dead_letters import records as dead_letters
    from resonance.pipeline.dead_letters import replay as work

FORGOTTEN_MS = 7 * 86_400_000
"""Milliseconds for which a broker keeps the progress of replays by default."""

PATIENCE = 30.0
"""Seconds without progress after which a command gives up on the broker."""

REPLAYING = "stopped; what was replayed so far counts, and the same command goes on behind it"
RESUMING = "stopped before the worker answered: its page /readyz says which partitions are still paused"

Class = Annotated[list[str] | None, typer.Option("--class", metavar="CLASS", help="Only of this class; repeatable.")]
Stage = Annotated[
    list[str] | None, typer.Option("--stage", metavar="decode|validate|limit|label", help="Only of this stage.")
]
Partition = Annotated[
    str | None, typer.Option(metavar="N|TOPIC[N]", help="Only of this partition, of one input topic or of all.")
]
From = Annotated[str, typer.Option("--from", metavar=PLACE, help="Where to begin, on the topic of the dead letters.")]

app = CommandApp(no_args_is_help=True, help="Records that could not be used: list, replay, go on.")


def chosen(
    kinds: Class = None, stages: Stage = None, partition: Partition = None, start: From = "earliest"
) -> "dead_letters.Choice":
    """Return the choice of dead letters that the options make.

    Raises `ConfigurationError`, with what is allowed, for an unknown class or stage, and for an unreadable partition or
    time.
    """
    from resonance.pipeline.dead_letters import records as dead_letters
    from resonance.pipeline.kafka import positions

    for option, given, known in (("class", kinds, DeadLetterClass), ("stage", stages, DeadLetterStage)):
        allowed = get_args(known)
        for word in given or ():
            if word not in allowed:
                raise ConfigurationError(
                    f"--{option} {word}: must be one of {', '.join(allowed)}{nearest(word, allowed)}"
                )
    if not (place := re.fullmatch(r"(?:(.+)\[([0-9]{1,9})\])|([0-9]{1,9})", partition or "0")):
        raise ConfigurationError(f"--partition {partition}: give a number, such as 0, or topic and number: features[0]")
    number = None if partition is None else int(place[2] or place[3])
    since = positions.Position.parse(start, "--from")
    return dead_letters.Choice(tuple(kinds or ()), tuple(stages or ()), number, since, topic=place[1])


Chosen = Annotated["dead_letters.Choice", Depends(chosen)]


@app.command("list", short_help="List what could not be used, and why.")
@says_when_stopped(UNCHANGED)
@injected
def list_dead_letters(
    choice: Chosen,
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the latest N dead letters; all are counted.")
    ] = 20,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all dead letters, with key and value, as JSONL.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """List dead letters: the place of the record, what is wrong with it, and how many there are of each class."""
    from resonance.pipeline.dead_letters import records as dead_letters
    from resonance.pipeline.kafka import log_reader, positions
    from resonance.pipeline.topics import acls

    settings = load()
    client, partitions = connected(settings, choice)
    counts: Counter[tuple[str, str]] = Counter()
    shown: deque[Any] = deque(maxlen=limit)
    try:
        exported = export.open("wb") if export else None
    except OSError as error:
        raise ConfigurationError(f"--export {export}: it cannot be written ({error.strerror}); name another") from None
    stopped = f"{UNCHANGED}, but {export} may hold a part of the dead letters" if export else UNCHANGED
    try:
        with (
            says_when_stopped(stopped),
            log_reader.LogReader(client, acls.replay_group(settings.name), PATIENCE) as reader,
        ):
            ranges = positions.ranges_from(reader, partitions, choice.since)
            for _, found in dead_letters.read_dead_letters(reader, ranges, settings.name):
                for dead_letter in filter(choice.has, found):
                    counts[dead_letter.stage, dead_letter.kind] += 1
                    shown.append(dead_letter)
                    if exported:
                        exported.write(orjson.dumps(dead_letter.as_json(content=True)) + b"\n")
    finally:
        if exported:
            exported.close()
    total = sum(counts.values())
    if as_json:
        by_class = [{"stage": stage, "class": kind, "records": n} for (stage, kind), n in counts.most_common()]
        print_json({"records": total, "classes": by_class, "letters": [each.as_json() for each in shown]})
    elif total:
        print_table(
            ["record", "class", "bytes", "cut", "message"],
            [(each.where, each.kind, each.length, each.truncated, each.message) for each in shown],
        )
        print_line()
        print_table(["stage", "class", "records"], [(*which, n) for which, n in counts.most_common()])
    if not total:
        say(f"no dead letters on {partitions[0][0]}" + (", or none of these" if choice.narrow else ""))
    if export:
        say(f"wrote {counted(total, 'dead letter')} to {export}")


@app.command("replay", short_help="Produce them again, after a fix.")
@says_when_stopped(UNCHANGED)
@injected
def replay_dead_letters(
    choice: Chosen,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Replay at most N dead letters.")] = None,
    yes: plans.Yes = False,
    *,
    as_json: Json = False,
) -> None:
    """Produce dead letters into their input topic again, after a fix: same partition, key, value and headers.

    They are replayed in the order of their originals, each once: what was replayed before is left out, and an
    interrupted replay continues where it stopped. Those that were cut cannot be replayed and are listed, and so are
    those of an input topic that was deleted and made again since.
    """
    from resonance.pipeline.dead_letters import replay as work

    settings = load()
    source = replay_source(settings, choice)
    if yes:
        with says_when_stopped(REPLAYING), progress("replaying", None) as draw:
            made = work.replay(source, choice, limit, draw)
    else:
        made = work.plan(source, choice, limit)
    refused = [
        (reason, entry)
        for reason, entries in (
            ("cut", made.truncated),
            ("no input topic", made.foreign),
            ("of an earlier topic of that name", made.earlier),
            ("part of a message with a schema, or of OTLP", made.parts),
        )
        for entry in entries
    ]
    if as_json:
        print_json(
            {
                "done": yes,
                "records": made.records,
                "classes": dict(made.kinds),
                "replayed_before": made.done,
                "refused": [
                    {"source": common.place_of(*entry.source, entry.element), "reason": reason}
                    for reason, entry in refused
                ],
            }
        )
    else:
        if made.records:
            rows = [(f"{e.source[0]}[{at[1]}]", e.kind) for at, entries in made.entries.items() for e in entries]
            print_table(["to", "class", "records"], [(*row, n) for row, n in sorted(Counter(rows).items())])
        if refused:
            print_line()
            print_line("cannot be replayed:")
            print_table(
                ["record", "why"],
                [
                    (common.place_text(common.place_of(*entry.source, entry.element)), reason)
                    for reason, entry in refused
                ],
            )
    if made.oldest is not None and time.time() * 1_000 - made.oldest > FORGOTTEN_MS:
        say(
            "nothing is known of earlier replays of these partitions, and some dead letters are older than a week, "
            "after which brokers forget such progress (offsets.retention.minutes); if they were replayed, choose with "
            "--from"
        )
    if made.earlier:
        names = ", ".join(sorted({entry.source[0] for entry in made.earlier}))
        say(
            f"{names} was deleted and made again since {len(made.earlier):,} of these dead letters were written: they "
            "belong to another log and are not sent; dlq list --export FILE writes their keys and values, to be "
            "produced from there where they are still wanted"
        )
    before = f"; {made.done:,} were replayed before" if made.done else ""
    if not made.records:
        say(f"nothing to replay{before}")
    elif yes:
        footnote(f"replayed {counted(made.records, 'dead letter')}{before}", as_json=as_json)
    else:
        footnote(
            f"{counted(made.records, 'dead letter')} would be replayed{before}; add --yes to do it", as_json=as_json
        )


def replay_source(settings: "config.Settings", choice: "dead_letters.Choice") -> "work.ReplaySource":
    """Return the dead letters of a deployment, and the topics that they came from."""
    from resonance.pipeline.dead_letters import replay as work
    from resonance.pipeline.kafka import admin
    from resonance.pipeline.task.decode import unpacking
    from resonance.pipeline.topics import kinds

    client, partitions = connected(settings, choice)
    cluster = admin.ClusterAdmin(client, settings.broker.answer_timeout)
    names = [partitions[0][0], *(topic.name for topic in kinds.Topics.of(settings).of_others)]
    return work.ReplaySource(
        client,
        settings.name,
        partitions,
        cluster.describe(names),
        atomic=not cluster.embedded,
        transaction_timeout=settings.delivery.transaction_timeout,
        wrapped=unpacking.wrapping(settings),
    )


def connected(
    settings: "config.Settings", choice: "dead_letters.Choice"
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Return the connection's configuration, and the chosen partitions of the dead-letter topic.

    Raises `ConfigurationError`, with the range of partitions, for one that the topic does not have.
    """
    from resonance.pipeline.kafka import admin, clients, positions

    client = clients.librdkafka(settings)
    topic = settings.topic("dead_letters")
    found = positions.partitions_of(admin.ClusterAdmin(client, settings.broker.answer_timeout), topic, settings.name)
    if choice.partition is None:
        return client, found
    if choice.partition >= len(found):
        raise ConfigurationError(f"--partition {choice.partition}: {topic} has partitions 0 to {len(found) - 1}")
    return client, [found[choice.partition]]


@app.command(short_help="Let paused partitions go on.")
@says_when_stopped(RESUMING)
def resume(
    worker: Annotated[
        str, typer.Option(metavar="URL", help="Address of the worker's pages (worker.web_host, worker.web_port).")
    ] = "http://127.0.0.1:6066",
    partition: Annotated[
        str | None,
        typer.Option(metavar="N|TOPIC[N]", help="Only this partition; by default all that the worker has paused."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Resume partitions that a worker paused because most of their records were dead letters.

    They continue at the very next record, and can pause again. The worker's page /readyz and its log show which
    partitions wait, and why. If the worker has a token (worker.web_token), the settings must have it, too, such as
    RESONANCE_WORKER__WEB_TOKEN in the environment.
    """
    from resonance.pipeline.worker.http import page_client

    token = load_outputs().worker.web_token
    resumed = page_client.resume(worker, partition, token.get_secret_value() if token else "")
    if as_json:
        print_json({"resumed": resumed})
        return
    for name in resumed:
        print_line(f"{name} goes on")
    if not resumed:
        say("no partition of this worker is paused")
