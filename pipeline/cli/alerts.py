"""``resonance alerts``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli.injection import CommandApp
from resonance.pipeline.cli.options import EachAlert, Json, load_outputs
from resonance.pipeline.cli.output import footnote, print_json, print_line, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError
from resonance.schemas import ClusterNames

if TYPE_CHECKING:
    from resonance.pipeline.task.alerts import alert_table

PATIENCE = 30.0
"""Seconds without progress after which the command gives up on the broker."""

SHOWN = 10
"""Cleared alerts that are shown; --json has the newest of each rule and stream, or cluster."""

Streams = Annotated[
    list[str] | None, typer.Option("--stream", metavar="STREAM", help="Only of this stream; repeatable.")
]

app = CommandApp()


@app.command()
@says_when_stopped(UNCHANGED)
def alerts(streams: Streams = None, each: EachAlert = False, *, as_json: Json = False) -> None:
    """List the open alerts, the most urgent first, then cleared ones and how they ended.

    Alike alerts of three streams or more, ten minutes apart at most, are one line with their number.
    They are read from the topic of the alerts. What opens and clears from now on: resonance watch --kind alerts.
    """
    from resonance.pipeline.kafka import admin, clients, log_reader, positions
    from resonance.pipeline.task.alerts import alert_table
    from resonance.pipeline.watch import alike_alerts, named, sentences

    settings = load_outputs()
    if not settings.raises_alerts:
        raise ConfigurationError("every rule is off (alerts.off), so there are no alerts; switch one on")
    client, topic = clients.librdkafka(settings), settings.topic("alerts")
    partitions = positions.partitions_of(
        admin.ClusterAdmin(client, settings.broker.answer_timeout), topic, settings.name
    )
    table = alert_table.OpenAlertTable()
    with log_reader.LogReader(client, f"{settings.name}-watch", PATIENCE) as reader:
        for _, records in reader.read(positions.ranges_from(reader, partitions, positions.EARLIEST)):
            table.apply(records)
        # Any output shows that a worker has read something, also one that is deleted since.
        outputs = [
            (settings.topic(kind), partition)
            for kind in ("alerts", "assignments", "cluster_events", "dead_letters")
            for _, partition in partitions
        ]
        is_new = not any(end for _, end in reader.bounds(list(filter(reader.has, outputs))).values())
        names = named.read_names(reader, settings)
    found = [alert for alert in table.alerts() if not streams or alert["stream"] in streams]
    ended = [alert for alert in table.ended() if not streams or alert.payload["stream"] in streams]
    if as_json:
        print_json({"open": found, "cleared": [{**alert.payload, "learned": alert.learned} for alert in ended]})
        return
    if table.foreign:
        say(f"{topic}: {table.foreign:,} records there are no alerts of a worker: left out")
    if not found and is_new:
        say(f"there is no output of {settings.name} yet, so that nothing is known: look whether a worker runs")
    elif not found:
        say(f"no alert of {', '.join(streams)} is open" if streams else "no alert is open")
    else:
        rows = []
        for alike in alike_alerts.together(found, lambda alert: alert, each=each):
            first, text = alike[0], alike_alerts.summary(alike, _text(alike[0], names))
            rows.append((sentences.second(first["since"]), first["severity"], first["rule"], text))
        print_table(["since", "severity", "rule", "what"], rows)
    if not ended:
        return
    print_line()
    groups = alike_alerts.together(ended, lambda one: one.payload, each=each)
    cleared = [_cleared(alike, names) for alike in groups[:SHOWN]]
    print_table(["opened", "cleared", "severity", "rule", "how it ended"], cleared)
    if more := sum(map(len, groups[SHOWN:])):
        footnote(f"{more:,} more have cleared: --json has them")


def _text(payload: Mapping[str, Any], names: ClusterNames) -> str:
    from resonance.pipeline.watch import named

    text: str = payload["text"]
    return named.with_names(text, named.mentioned(payload), names)


def _cleared(alike: "Sequence[alert_table.ClearedAlert]", names: ClusterNames) -> tuple[str, ...]:
    """Return the row of cleared alerts: when, severity, rule, and how the first of them ended."""
    from resonance.pipeline.watch import alike_alerts, named, sentences

    payload, learned = alike[0]
    text = _text(payload, names)
    if learned:
        text = f"learned: {', '.join(learned)} came meanwhile, and is normal for {payload['stream']} now"
        text = named.with_names(text, learned, names)
    alerts = [one.payload for one in alike]
    since = min(alert["since"] for alert in alerts)
    return (
        sentences.second(since),
        sentences.second(payload["time"]),
        payload["severity"],
        payload["rule"],
        alike_alerts.summary(alerts, text),
    )
