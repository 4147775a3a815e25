"""``resonance alerts``."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli.options import CommandApp, Json, Streams, load_outputs
from resonance.pipeline.cli.output import end, footnote, print_incidents, print_json, print_line, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError, counted, second, unnamed_streams
from resonance.pipeline.stream_keys import readable
from resonance.schemas import ClusterNames, Incident

if TYPE_CHECKING:
    from resonance.pipeline.task.alerts import alert_table

PATIENCE = 30.0
"""Seconds without progress after which the command gives up on the broker."""

SHOWN = 10
"""Incidents that are over that are shown; --json has all."""

To = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Send what opens and clears to an Alertmanager, or to https://events.pagerduty.com/v2/enqueue.",
    ),
]
Publish = Annotated[
    bool,
    typer.Option("--publish", help="Keep the topic of incidents up to date; with --to these are sent, not each alert."),
]
Group = Annotated[
    str | None,
    typer.Option(metavar="GROUP", help="Consumer group of --to, one for each URL; by default NAME-alertmanager."),
]
Port = Annotated[int | None, typer.Option(min=1, max=65535, metavar="N", help="Port of this machine for /readyz.")]
Each = Annotated[bool, typer.Option("--each", help="List each alert, the most urgent first, and how it ended.")]

app = CommandApp()


@app.command()
@says_when_stopped(UNCHANGED)
def alerts(
    streams: Streams = None,
    each: Each = False,
    *,
    as_json: Json = False,
    publish: Publish = False,
    to: To = None,
    group: Group = None,
    port: Port = None,
) -> None:
    """List what happened, the newest first: alerts and drifts of one stream or many that belong together.

    They are read from the topics of the outputs. What opens and clears from now on: resonance watch --kind alerts, or
    --publish and --to, which run until SIGTERM or Ctrl-C; the token of --to is alerts.token.
    """
    from resonance.pipeline import logs
    from resonance.pipeline.forward import receivers
    from resonance.pipeline.incidents import incidents, sign_table
    from resonance.pipeline.kafka import admin, clients, log_reader, positions
    from resonance.pipeline.task.alerts import alert_table
    from resonance.pipeline.watch import named

    settings = load_outputs()
    if not settings.raises_alerts:
        raise ConfigurationError("every rule is off (alerts.off), so there are no alerts; switch one on")
    _check_options({"--stream": streams, "--each": each, "--json": as_json}, publish, to, group, port)
    token = settings.alerts.token.get_secret_value() if settings.alerts.token else ""
    receiver = None if to is None else receivers.receiver(to, token, settings.name)
    client, topic = clients.librdkafka(settings), settings.topic("alerts")
    partitions = positions.partitions_of(
        admin.ClusterAdmin(client, settings.broker.answer_timeout), topic, settings.name
    )
    if publish or receiver is not None:
        from resonance.pipeline.forward import run

        logs.configure(settings.worker.log_level, settings.worker.log_format)
        own = f"{settings.name}-{receiver.name}{'-incidents' * publish}" if receiver else ""
        asyncio.run(run.forward(settings, receiver, group or own, port, publishes=publish))
        end(0)
    table, happened = alert_table.OpenAlertTable(), incidents.IncidentTable()
    is_whole = as_json or not each or bool(streams)
    with log_reader.LogReader(client, f"{settings.name}-watch", PATIENCE) as reader:
        for kind in sign_table.FOLLOWED if is_whole else ("alerts",):
            there = [at for _, partition in partitions if reader.has(at := (settings.topic(kind), partition))]
            for _, records in reader.read(positions.ranges_from(reader, there, positions.EARLIEST)):
                if is_whole:
                    happened.read(kind, records)
                if kind == "alerts":
                    table.apply(records)
        # Any output shows that a worker has read something, also one that is deleted since.
        outputs = [
            (settings.topic(kind), partition)
            for kind in ("alerts", "assignments", "cluster_events", "dead_letters")
            for _, partition in partitions
        ]
        is_new = not any(end for _, end in reader.bounds(list(filter(reader.has, outputs))).values())
        names = named.read_names(reader, settings)
    if happened.streams and (missing := sorted({*(streams or ())}.difference(happened.streams))):
        raise ConfigurationError(f"--stream: {unnamed_streams(missing, happened.streams)}")
    found = [alert for alert in table.alerts() if not streams or alert["stream"] in streams]
    ended = [alert for alert in table.ended() if not streams or alert.payload["stream"] in streams]
    ones = [one for one in happened.incidents() if not streams or set(streams) & set(one["streams"])]
    if table.left_out and (each or as_json):
        say(f"of cleared alerts the {table.left_out:,} that were read first are left out")
    if as_json:
        cleared = [{**alert.payload, "learned": alert.learned} for alert in ended]
        print_json({"incidents": ones, "open": found, "cleared": cleared})
        return
    if table.foreign:
        say(f"{topic}: {table.foreign:,} records there are no alerts of a worker: left out")
    if not found and is_new:
        say(f"there is no output of {settings.name} yet, so that nothing is known: look whether a worker runs")
    elif not found:
        say(f"no alert of {', '.join(streams)} is open" if streams else "no alert is open")
    if ones and not each:
        _show_incidents(ones, names)
        footnote(f"--each lists the alerts: {counted(len(found), 'open one')}, {len(ended):,} cleared")
        return
    if found:
        rows = [(second(alert["since"]), alert["severity"], alert["rule"], _text(alert, names)) for alert in found]
        print_table(["since", "severity", "rule", "what"], rows)
    if not ended:
        return
    print_line()
    print_table(["opened", "cleared", "severity", "rule", "how it ended"], [_cleared(one, names) for one in ended])


def _check_options(
    listing: Mapping[str, Any], publish: bool, to: str | None, group: str | None, port: int | None
) -> None:
    """Raise `ConfigurationError` for options that belong to the list with ``--to`` or ``--publish``, or the reverse."""
    given, why = {"--group": group, "--port": port}, "without --to nothing is sent"
    if to is not None:
        given, why = {**listing}, "--to sends every alert"
    elif publish:
        given, why = {**listing, "--group": group}, "--publish lists nothing"
    if unfit := [name for name, value in given.items() if value]:
        raise ConfigurationError(f"{', '.join(unfit)}: {why}; leave {'it' if len(unfit) == 1 else 'them'} out")


def _show_incidents(ones: Sequence[Incident], names: ClusterNames) -> None:
    """Print the open incidents and the newest of those that are over."""
    from resonance.pipeline.watch import named

    over = [one["key"] for one in ones if not one["is_open"]]
    shown = [one for one in ones if one["key"] not in over[SHOWN:]]
    print_incidents({**one, "text": named.with_names(one["text"], names.given, names)} for one in shown)
    if more := len(over[SHOWN:]):
        footnote(f"{more:,} more are over: --json has them")


def _text(payload: Mapping[str, Any], names: ClusterNames, learned: Sequence[str] = ()) -> str:
    """Return the sentence of an alert, or what was learned at its end."""
    from resonance.pipeline.watch import named

    text: str = payload["text"]
    if learned:
        text = f"learned: {', '.join(learned)} came meanwhile, and is normal for {payload['stream']} now"
    return readable(named.with_names(text, learned or named.mentioned(payload), names), payload["stream"])


def _cleared(one: "alert_table.ClearedAlert", names: ClusterNames) -> tuple[str, ...]:
    """Return the row of a cleared alert: when, severity, rule, and how it ended."""
    payload = one.payload
    times = second(payload["since"]), second(payload["time"])
    return *times, payload["severity"], payload["rule"], _text(payload, names, one.learned)
