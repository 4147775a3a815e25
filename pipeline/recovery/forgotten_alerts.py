"""Clear alerts that are open on their topic, and that the state which is written does not have.

A worker clears only what its state has open. Without these messages an alert whose state is gone would be open for
ever to everyone who has seen it open.
"""

import time
from collections.abc import Callable
from typing import Final, Self

from resonance.pipeline import exact_json
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.recovery.rewrite import is_stream_of
from resonance.pipeline.task.alerts.alert_table import OpenAlertTable, OpenedAlert
from resonance.pipeline.timestamps import canonical
from resonance.schemas import Alert, AlertReason

_WHY: Final[dict[AlertReason, str]] = {
    "reset": "the deployment was reset",
    "rollback": "its models went back to an earlier offset",
    "new_version": "new models began",
}


class ForgottenAlerts:
    """The alerts that are open on their topic, until what becomes of their state is known."""

    def __init__(self, source: DeploymentContext, table: OpenAlertTable) -> None:
        self._source, self._table = source, table

    @classmethod
    def read(cls, reader: LogReader, source: DeploymentContext) -> Self:
        """Read the topic of the alerts, where there is one."""
        table = OpenAlertTable()
        topic = source.settings.topic("alerts")
        there = [at for n in range(source.deployment.state_partitions) if reader.has(at := (topic, n))]
        for _, records in reader.read(reader.settled_bounds(there, source.patience)):
            table.apply(records)
        return cls(source, table)

    def clear(
        self, at: TopicPartition, reason: AlertReason, keeps: Callable[[OpenedAlert], bool] = lambda _: False
    ) -> list[Batch]:
        """Return the messages that clear the open alerts of a partition, but for those that its state `keeps`."""
        table = self._table
        chosen = [place for place, found in table.opened.items() if self._is_of(at, found, place) and not keeps(found)]
        messages: dict[int, list[Message]] = {}
        for place in chosen:
            found = table.opened.pop(place)
            messages.setdefault(found.record.partition, []).append(self._cleared(found, place, reason))
        return [Batch(self._source.settings.topic("alerts"), partition, own) for partition, own in messages.items()]

    def _is_of(self, at: TopicPartition, found: OpenedAlert, place: str) -> bool:
        """Whether an alert is of an input partition or of one of its streams."""
        if found.stream is None:
            return place.endswith(f"/{at[0]}[{at[1]}]")
        return found.record.partition == at[1] and is_stream_of(self._source, at, found.stream)

    def _cleared(self, found: OpenedAlert, place: str, reason: AlertReason) -> Message:
        record, payload = found
        about = payload.get("cluster") or found.stream or place.rpartition("/")[2]
        about += f" lacks {payload['feature']}" if "feature" in payload else ""
        moment = round(1_000 * time.time())
        numbers = self._table.numbers
        numbers[found.numbered] += 1
        cleared: Alert = {
            **payload,  # type: ignore[typeddict-item]
            "kind": "cleared",
            "seq": numbers[found.numbered],
            "text": f"{about}: the alert ended, because {_WHY[reason]}",
            "evidence": {"ended": 1.0},
            "reason": reason,
            "time": canonical(moment),
        }
        headers = dict(record.headers)
        if (opened := headers.get("ce_id")) is not None:
            # The same alert may be open again, and forgotten again.
            id_ = f"{opened.decode().removesuffix('opened')}cleared/{reason}/{moment}"
            headers |= {"ce_id": id_.encode(), "ce_time": canonical(moment).encode()}
        return Message(record.key, exact_json.dumps(cleared), list(headers.items()), record.partition)
