"""``resonance alerts``."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from resonance.pipeline.cli.injection import CommandApp, injected
from resonance.pipeline.cli.options import Json, Outputs
from resonance.pipeline.cli.output import print_json, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka import admin, clients, log_reader, positions
from resonance.pipeline.task.alerts import alert_table
from resonance.pipeline.watch import named
from resonance.schemas import ClusterNames

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
@injected
def alerts(streams: Streams = None, *, settings: Outputs, as_json: Json = False) -> None:
    """List the open alerts, the most urgent first, then cleared ones and how they ended.

    They are read from the topic of the alerts. What opens and clears from now on: resonance watch --kind alerts.
    """
    if not settings.raises_alerts:
        raise ConfigurationError("every rule is off (alerts.*), so there are no alerts; switch one on")
    client, topic = clients.librdkafka(settings), settings.topic("alerts")
    partitions = positions.partitions_of(
        admin.ClusterAdmin(client, settings.broker.answer_timeout), topic, settings.name
    )
    table = alert_table.OpenAlertTable()
    with log_reader.LogReader(client, f"{settings.name}-watch", PATIENCE) as reader:
        for _, records in reader.read(positions.ranges_from(reader, partitions, positions.EARLIEST)):
            table.apply(records)
        names = named.read_names(reader, settings)
    found = [alert for alert in table.alerts() if not streams or alert["stream"] in streams]
    ended = [alert for alert in table.ended() if not streams or alert.payload["stream"] in streams]
    if as_json:
        print_json({"open": found, "cleared": [{**alert.payload, "learned": alert.learned} for alert in ended]})
        return
    if table.foreign:
        say(f"{topic}: {table.foreign:,} records there are no alerts of a worker: left out")
    if not found:
        say("no alert is open")
    else:
        rows = [
            (_second(alert["since"]), alert["severity"], alert["rule"], _called(alert, alert["text"], names))
            for alert in found
        ]
        print_table(["since", "severity", "rule", "what"], rows)
    if not ended:
        return
    typer.echo("")
    cleared = [
        (_second(one.payload["since"]), _second(one.payload["time"]), *_how(one, names)) for one in ended[:SHOWN]
    ]
    print_table(["opened", "cleared", "severity", "rule", "how it ended"], cleared)
    if len(ended) > SHOWN:
        say(f"{len(ended) - SHOWN:,} more have cleared: --json has them")


def _second(time: str) -> str:
    return time[:19].replace("T", " ")


def _called(payload: Mapping[str, Any], text: str, names: ClusterNames) -> str:
    return named.with_names(text, named.mentioned(payload), names)


def _how(alert: "alert_table.ClearedAlert", names: ClusterNames) -> tuple[str, str, str]:
    """Return severity and rule of a cleared alert, and how it ended."""
    payload, learned = alert
    text = _called(payload, payload["text"], names)
    if learned:
        text = f"learned: {', '.join(learned)} came meanwhile, and is normal for {payload['stream']} now"
        text = named.with_names(text, learned, names)
    return payload["severity"], payload["rule"], text
