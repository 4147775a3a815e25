"""The alerts of a partition: runs the rules on what a batch brought, and writes what opened and cleared."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from resonance.engine.drift import DriftChange
from resonance.kernels.arithmetic import log
from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Outputs, SourceRecord
from resonance.pipeline.task.alerts import kernels, rules
from resonance.pipeline.task.alerts.missing_features import MissingFeatures
from resonance.pipeline.task.alerts.open_alerts import OpenAlert, OpenAlerts, StreamAlerts, Transition
from resonance.pipeline.task.alerts.rules import AnswerRules, DeadLetterShare, drift_transitions
from resonance.pipeline.task.alerts.sentences import sentence, setting_of, severity_of
from resonance.pipeline.task.alerts.silent_streams import SilentStreams
from resonance.pipeline.task.decode.faults import Fault
from resonance.pipeline.task.decode.record_batch import RecordBatch, slice_of
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.encode.cluster_events import EventCause, EventEncoder
from resonance.pipeline.task.model.stream_drift import WatchedChange
from resonance.pipeline.timestamps import canonical
from resonance.schemas import Alert, AlertRule

if TYPE_CHECKING:
    from resonance.pipeline.task.model.learn_result import LearnResult
    from resonance.pipeline.task.model.stream_model import StreamModel
    from resonance.pipeline.task.model_health import ModelHealth
    from resonance.pipeline.task.streams import Streams

MEASURED: Final = 3
"""Rules that can be wrong by chance, which share the budget `alerts.rarity`: unlike, silent, and the drift events.

Where records may lack features `missing` is one more.
"""


class _Found(NamedTuple):
    """What a rule has found at a position of the batch: an alert opens or clears, or a drift event that does it."""

    position: int
    model: "StreamModel"
    change: Transition | DriftChange
    texts: StreamTexts | None = None


class PartitionAlerts:
    """Raises the alerts of a partition and of its streams; the state of a stream's alerts is part of its model.

    Where every rule is off it writes nothing, and goes on with the numbers.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        partition: int,
        streams: "Streams",
        encoder: EventEncoder,
        health: "ModelHealth",
    ) -> None:
        kernels.compile()
        self._rules, self._raises = settings.alert_rules, settings.raises_alerts
        self._name, self._where = settings.name, f"{topic}[{partition}]"
        self._engine = settings.engine_class
        self._streams, self._encoder, self._health = streams, encoder, health
        measured = MEASURED + ("missing" in self._rules)
        evidence = self._evidence = float(log(measured * settings.alerts.rarity))
        self._answers = AnswerRules(self._rules, evidence, self._engine.unusual)
        self._own = OpenAlerts()
        window, share = rules.DEAD_LETTERS_WINDOW, rules.DEAD_LETTERS_SHARE
        self._dead_letters = DeadLetterShare(window, share) if "dead_letters" in self._rules else None
        gaps, seconds = max(rules.SILENT_GAPS, evidence), rules.SILENT_SECONDS
        self._silent = SilentStreams(gaps, seconds, (topic, partition)) if "silent" in self._rules else None
        if self._silent is not None:
            streams.loaded.append(self._loaded)
        self._found: list[_Found] = []
        # Streams, and the partition under None, with alerts that opened in a bootstrap, or have ended; and whether that
        # was found at this start: no output of an earlier run has emitted it.
        self._owing: dict[str | None, bool] = {}

    # A batch

    def begin(self, records: RecordColumns, batch: RecordBatch | None, outputs: Outputs | None) -> None:
        """Emit, with the first of some records, what is owed: alerts that opened in a bootstrap or have ended.

        `batch` has the usable ones, None where no record is decoded.
        """
        if not self._owing:
            return
        # Any record will do, so that no state is written behind one while something is owed.
        is_usable = batch is not None and len(batch) and batch.index[0] == 0
        cause = EventCause(batch, 0, outputs) if batch is not None and is_usable else _bare_cause(records[0], outputs)
        for name in sorted(self._owing, key=lambda name: name or ""):
            if outputs is None and self._owing[name]:
                continue
            del self._owing[name]
            model = None if name is None else self._streams.named(name)
            alerts = self._own if model is None else model.alerts
            owed = [] if alerts is None else alerts.owed
            for alert in owed:
                if alert.ended:
                    self._apply(model, _ended(alert), cause)
                else:
                    alert.owed = False
                    self._emit(model, alert, True, alert.evidence, cause)
            if owed and model is not None:
                self._streams.touched(model, cause.offset)

    def began(self, key: bytes | None, model: "StreamModel") -> None:
        """Follow the records of a new stream."""
        if self._silent is not None and model.alerts is not None:
            self._silent.begin(key, model.name, model.alerts)

    def stream_ended(self, key: bytes | None, model: "StreamModel", cause: EventCause) -> None:
        """Clear the alerts of a stream that has ended, and follow its records no more."""
        if model.alerts is None:
            return
        for alert in sorted(model.alerts.open.values(), key=lambda alert: alert.number):
            self._apply(model, _ended(alert), cause)
        self._owing.pop(model.name, None)
        if self._silent is not None:
            self._silent.end(key)

    def learned(
        self,
        model: "StreamModel",
        batch: RecordBatch,
        positions: Sequence[int],
        result: "LearnResult",
        texts: StreamTexts,
    ) -> None:
        """Run the rules on what became of a stream's records, which stand at some positions of a batch.

        What opens and clears is applied by `end`. With a first scale much is new that is usual.
        """
        alerts = model.alerts
        if alerts is None or not self._raises or model.preparation.settling:
            return
        rows = batch.given(positions)[0]
        drift = ((at, each.change) for at, each in result.drift if isinstance(each, WatchedChange))
        found: list[tuple[int, Transition | DriftChange]] = [
            *self._answers.transitions(alerts, rows, result, texts, model.preparation),
            *(self._missing(model, alerts, rows, result) if "missing" in self._rules else ()),
            *drift,
        ]
        self._found += [_Found(positions[at], model, change, texts) for at, change in found]

    def _missing(
        self, model: "StreamModel", alerts: StreamAlerts, rows: Any, result: "LearnResult"
    ) -> Iterator[tuple[int, Transition]]:
        """Yield the alerts on features that are missing from now, or no longer."""
        if not len(result.learned):
            return
        alerts.missing = alerts.missing or MissingFeatures()
        learned = slice_of(result.learned)
        for each in alerts.missing.take(np.isnan(rows[learned]), result.marks.times[learned], self._evidence):
            name = model.preparation.known_features[each.column]
            change = Transition("missing", each.opened, each.evidence, name, began=each.began)
            yield result.learned[each.row], change

    def _of_drift(self, model: "StreamModel", change: DriftChange, texts: StreamTexts | None) -> list[Transition]:
        if model.alerts is None or texts is None:
            return []
        return list(drift_transitions(model.alerts, change, lambda cluster: texts.cluster_id((), cluster), self._rules))

    def end(
        self,
        records: RecordColumns,
        batch: RecordBatch,
        outputs: Outputs | None,
        no_ones: Collection[int] = (),
    ) -> None:
        """Open and clear what the rules have found in a batch, in the order of its records.

        The records at the positions `no_ones` belong to no stream.
        """
        found, self._found = self._found, []
        if self._silent is not None and len(batch):
            for each in self._silent.follow(batch, no_ones):
                evidence = {"seconds": each.seconds, "usual_seconds": each.usual}
                transition = Transition("silent", each.opened, evidence)
                model = self._streams.named(each.stream)
                found.append(_Found(each.position, model, transition))
                self._streams.touched(model, batch.offsets[each.position])
        # Messages and alerts of a stream are numbered: a stream that is silent may also be unlike in the same batch.
        for position, model, change, texts in sorted(found, key=itemgetter(0)):
            cause = EventCause(batch, position, outputs)
            # Which alerts the end of a drift clears depends on what the changes before it have opened.
            for one in [change] if isinstance(change, Transition) else self._of_drift(model, change, texts):
                self._apply(model, one, cause)
        self.count(records, [fault for fault in batch.faults if not fault.is_earlier(records)], outputs)

    def count(self, records: RecordColumns, faults: Iterable[Fault], outputs: Outputs | None) -> None:
        """Apply the rule on dead letters to records of the partition; `faults` are those of these records."""
        if self._dead_letters is None:
            return
        for position, opened, count in self._dead_letters.take(records.offsets, [fault.index for fault in faults]):
            evidence = {"dead_letters": float(count), "records": float(rules.DEAD_LETTERS_WINDOW)}
            cause = _bare_cause(records[position], outputs)
            self._apply(None, Transition("dead_letters", opened, evidence), cause)

    def _apply(self, model: "StreamModel | None", transition: Transition, cause: EventCause) -> None:
        """Open or clear an alert, of a stream or of the partition, and emit it."""
        alerts: OpenAlerts | None = self._own if model is None else model.alerts
        if alerts is None:
            return
        key = transition.rule, transition.cluster
        if not transition.opened:
            if (closed := alerts.open.pop(key, None)) is not None:
                self._health.open_alerts[key[0]] -= 1
                if not closed.owed:
                    # What has ended is cleared by any record of the partition.
                    outside = {} if "ended" in transition.evidence else _outside(model, closed, cause)
                    self._emit(model, closed, False, {**transition.evidence, **outside}, cause)
            return
        if key in alerts.open:
            return
        version = self._streams.first_version if model is None else model.version
        alert = OpenAlert(
            *key, version, alerts.number, cause.time, transition.evidence, transition.features, transition.began
        )
        alerts.open[key] = alert
        alerts.number += 1
        self._health.open_alerts[key[0]] += 1
        self._emit(model, alert, True, alert.evidence, cause)

    def _emit(
        self,
        model: "StreamModel | None",
        alert: OpenAlert,
        opened: bool,
        evidence: dict[str, float],
        cause: EventCause,
    ) -> None:
        alerts: Any = self._own if model is None else model.alerts
        seq = alerts.seq
        alerts.seq += 1
        if cause.outputs is None or not self._raises:
            return
        if opened:
            self._health.alerts[alert.rule] += 1
        stream = self._where if model is None else model.stream
        is_missing = alert.rule == "missing"
        about = f"{stream} lacks {alert.cluster}" if is_missing else alert.cluster or stream
        setting = setting_of(alert.rule, self._engine)
        payload: Alert = {
            "kind": "opened" if opened else "cleared",
            "rule": alert.rule,
            "key": self._key(model, alert),
            "severity": severity_of(alert.rule, alert.evidence),
            "stream": None if model is None else model.stream,
            "version": alert.version,
            "seq": seq,
        }  # type: ignore[typeddict-item]
        if alert.cluster is not None:
            payload["feature" if is_missing else "cluster"] = alert.cluster
        payload["text"] = sentence(alert.rule, opened, about, evidence, setting, alert.features)
        payload["evidence"] = evidence
        if alert.features:
            payload["features"] = alert.features
        if setting is not None:
            payload["setting"] = setting
        if alert.began is not None:
            payload["began"] = canonical(alert.began)
        payload["since"] = alert.since
        self._encoder.alert(payload, cause)

    def _key(self, model: "StreamModel | None", alert: OpenAlert) -> str:
        """Return what names an alert in both its messages."""
        subject = (self._where if model is None else model.stream, *(() if alert.cluster is None else (alert.cluster,)))
        return "/".join((self._name, alert.rule, *subject, str(alert.version), str(alert.number)))

    def open_keys(self) -> set[str]:
        """Return the keys of the open alerts."""
        keys = {self._key(None, alert) for alert in self._own.open.values()}
        for model in self._streams:
            if model.alerts is not None:
                keys |= {self._key(model, alert) for alert in model.alerts.open.values()}
        return keys

    # Snapshots

    def restored(self, model: "StreamModel") -> None:
        """Continue the alerts of a stream from its snapshot."""
        if model.alerts is None:
            model.alerts = StreamAlerts()
        alerts = model.alerts
        try:
            if self._silent is not None:
                self._silent.restored(self._streams.key_of(model.name), model.name, alerts)
        except (KeyError, TypeError, ValueError):
            raise mismatches.unreadable(self._where, f"the alerts of stream {model.name}") from None
        if self._silent is None:
            # Gaps from before the rule was switched off would be one long silence.
            alerts.gaps = lambda: None
        self._answers.switch_off(alerts)
        alerts.missing = alerts.missing if "missing" in self._rules else None
        drifts = model.drift is not None and model.drift.open_since is not None
        # Where the watch began anew nothing ends the drift of the one before.
        self._take_over(
            model.name, alerts, lambda rule: rule not in self._rules or (rule in ("drift_open", "share") and not drifts)
        )

    def _loaded(self, model: "StreamModel") -> None:
        """Continue the alerts of a stream whose model comes back into memory."""
        if self._silent is not None and model.alerts is not None:
            self._silent.loaded(self._streams.key_of(model.name), model.alerts)

    def _take_over(self, name: str | None, alerts: OpenAlerts, ended: Callable[[AlertRule], bool]) -> None:
        """Count the alerts that a snapshot has open, and let those of some rules end."""
        for alert in alerts.open.values():
            self._health.open_alerts[alert.rule] += 1
        now = alerts.end(ended)
        if alerts.owed:
            self._owing[name] = now

    def announce(self, model: "StreamModel | None" = None) -> None:
        """Let the first record behind a bootstrap emit the open alerts of a stream, or of the partition."""
        alerts: OpenAlerts | None = self._own if model is None else model.alerts
        for alert in () if alerts is None else alerts.open.values():
            alert.owed = True
            self._owing[None if model is None else model.name] = False

    def go_on_at(self, offset: int) -> None:
        """Continue at an offset, whatever the offsets of the records so far were."""
        if self._silent is not None:
            self._silent.go_on_at(offset)
        if self._dead_letters is not None:
            self._dead_letters.until = offset

    def state(self) -> dict[str, Any]:
        """Return the alerts of the partition itself in a form that JSON can hold."""
        share = None if self._dead_letters is None else self._dead_letters.state()
        return {**self._own.state(), "dead_letters": share}

    def restore(self, content: Any) -> None:
        """Continue from a `state`."""
        self._own.go_on(content)
        if self._dead_letters is not None and content["dead_letters"] is not None:
            self._dead_letters.restore(content["dead_letters"])
        self._take_over(None, self._own, lambda rule: rule not in self._rules)


def _ended(alert: OpenAlert) -> Transition:
    return Transition(alert.rule, False, {"ended": 1.0}, alert.cluster)


def _outside(model: "StreamModel | None", alert: OpenAlert, cause: EventCause) -> dict[str, float]:
    """Return in how many features of an alert the record that clears it is where it would still have opened it."""
    rows = cause.batch.rows
    if model is None or not alert.features or not isinstance(rows, np.ndarray):
        return {}
    values = dict(zip(model.preparation.features, rows[cause.position].tolist(), strict=True))
    far = (
        values[each["feature"]] > each["high"]
        if each["value"] > each["high"]
        else values[each["feature"]] < each["low"]
        for each in alert.features
        if each["feature"] in values
    )
    return {"outside": float(sum(far))}


def _bare_cause(record: SourceRecord, outputs: Outputs | None) -> EventCause:
    """Return a record of which nothing but its place and Kafka's timestamp is known, as the cause of an alert."""
    try:
        time = canonical(record.timestamp)
    except ValueError:
        time = canonical(0)
    return EventCause(RecordBatch(None, [time], [0], index=[0]).place(RecordColumns.of([record])), 0, outputs)
