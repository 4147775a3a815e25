"""First stage of re-keyed streams: finds the stream of each record or label, and sends it to where that is learned."""

from collections.abc import Callable, Sequence
from typing import Any

from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.config.values import category_text
from resonance.pipeline.json_paths import ABSENT
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import STREAM_BYTES, Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.repartition.envelope import REST_BYTES, rest_bytes, route_message
from resonance.pipeline.task.decode.dense import kind_of
from resonance.pipeline.task.decode.faults import Fault, FaultError, long_name
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.labels import LabelMessages
from resonance.pipeline.task.decode.unpacking import Unpacker
from resonance.pipeline.task.stream_task import NO_CONTEXT, StreamTask, TaskContext


class RouterTask(StreamTask):
    """Task of an input partition whose records are learned elsewhere: it has no stream, and its state is its position.

    A record that cannot be routed becomes a dead letter here and names its place. A record with another fault becomes
    one where it is learned. Only there, too, is it known whether the record of a label message has come.
    """

    _format = 2

    def __init__(self, settings: Settings, topic: str, partition: int, context: TaskContext = NO_CONTEXT) -> None:
        super().__init__(settings, topic, partition, context)
        self.models.record_after = settings.snapshots.records
        self._routes = context.routes
        self._unpacker = Unpacker.of(settings)
        self._stream_of: Callable[[SourceRecord], bytes]
        if topic == settings.labels.topic:
            messages = LabelMessages(settings)
            self._stream_of = lambda record: messages.read(record).stream
        else:
            self._stream_of = RecordStreams(settings, topic, self.mapping).stream_of
        if settings.raises_alerts:
            self._raise_alerts()

    def _run(self, found: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        records, faults = RecordColumns.of(found), list[Fault]()
        if self._unpacker is not None and records:
            records, faults = self._unpacker.columns(records)
            self._skipped -= len(faults)
        self.records += len(records)
        for index, record in enumerate(records):
            if record.value is None:
                self._skipped += 1
                continue
            try:
                stream = self._stream_of(record)
                if (rest := rest_bytes(record, stream)) > REST_BYTES:
                    raise FaultError(
                        "limit",
                        "record_too_large",
                        f"its key and its headers bring {rest:,} bytes to its value, {REST_BYTES:,} can be routed; "
                        "send shorter ones",
                    )
            except FaultError as error:
                faults.append(error.at(index))
                continue
            if outputs is not None:
                to = partition_of(stream, self._routes)
                outputs.routes.append(route_message(record, self.topic, self.partition, stream, to))
        if self._alerts is not None and records:
            self._alerts.begin(records, None, outputs)
            self._alerts.count(records, faults, outputs)
        self._dead_letters.record(records, faults, outputs, self.models.first_version)

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Raise `MismatchError`, because the snapshot was written where streams were learned here."""
        raise mismatches.unreadable(self._where, f"the state of stream {snapshot.stream}, which is not learned here,")

    def _own_state(self) -> dict[str, Any]:
        return {} if self._alerts is None else {"alerts": self._alerts.state()}

    def _restore_own(self, content: Any) -> None:
        # Where streams were learned here before, their state says of which features.
        if "decided_at" not in content:
            super()._restore_own(content)
            self._restore_alerts(content)


class RecordStreams:
    """Finds the streams of the records of an input topic; a `FaultError` says why a record has none."""

    def __init__(self, settings: Settings, topic: str, mapping: InputMapping) -> None:
        self._mapping = mapping
        self._path = settings.stream_field
        self._field = (settings.stream or "").partition(":")[2]
        self._whole = topic.encode()

    def stream_of(self, record: SourceRecord) -> bytes:
        """Return the key of the stream of a record that has a value."""
        value = record.value or b""
        self._mapping.check_size(value)
        return self._whole if self._path is None else self._named(value)

    def _named(self, value: bytes) -> bytes:
        """Return the key of the stream that a value names."""
        found = self._mapping.member(value, self._path or ())
        if type(found) is not str:
            found = self._text_of(found)
        stream: bytes = found.encode()
        if not stream:
            raise FaultError("validate", "no_key", f"{self._field} is empty text, and every stream has a name")
        if len(stream) > STREAM_BYTES:
            raise long_name(f"{self._field} has {len(stream):,} bytes", "; send shorter values")
        return stream

    def _text_of(self, found: Any) -> str:
        if found is ABSENT or found is None:
            text = f"{self._field} is {kind_of(found)}, and it says to which stream a record belongs (stream)"
            raise FaultError("validate", "no_key", text)
        try:
            return category_text(found)
        except ValueError:
            raise FaultError(
                "validate",
                "wrong_type",
                f"{self._field} is {kind_of(found)}; a stream is text, an integer, true or false",
            ) from None
