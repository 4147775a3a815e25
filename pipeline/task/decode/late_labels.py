"""Decodes records and messages of the topic of labels together in one batch."""

from dataclasses import replace

import numpy as np
from resonance.engine.prepare.sparse import SparseRows
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import RoutedRecord
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.labels import LabelMessages, RowLabels
from resonance.pipeline.task.decode.record_batch import RecordBatch


class LabelDecoding:
    """Decodes what comes over the routes where there is a topic of labels."""

    def __init__(self, settings: Settings, mapping: InputMapping) -> None:
        self._topic = settings.labels.topic
        self._mapping = mapping
        self._messages = LabelMessages(settings)

    def decode(self, records: RecordColumns) -> RecordBatch:
        """Decode a batch in offset order; messages of labels get rows of zeros."""
        routed = records.routed or ()
        late = {index: record for index, record in enumerate(routed) if record.topic == self._topic}
        if not late:
            return self._mapping.decode(records)
        others = [index for index in range(len(records)) if index not in late]
        given = self._mapping.decode([routed[index] for index in others])
        faults = [replace(fault, index=others[fault.index]) for fault in given.faults]
        entries: list[tuple[int, int, RowLabels, str]] = [
            (others[place], row, given.labels[row], given.times[row]) for row, place in enumerate(given.index)
        ]
        for index, record in late.items():
            try:
                entries.append((index, -1, self._row_labels(record), self._mapping.stamp(record)))
            except FaultError as error:
                faults.append(error.at(index))
        entries.sort(key=lambda entry: entry[0])
        if isinstance(given.rows, SparseRows):
            raise TypeError("engines that learn from labels take no sparse records")
        rows = np.zeros((len(entries), given.rows.shape[1]))
        rows[[place for place, (_, row, *_) in enumerate(entries) if row >= 0]] = given.rows
        included, texts = given.included, given.texts
        return RecordBatch(
            rows,
            [time for *_, time in entries],
            [len(routed[index].value or b"") for index, *_ in entries],
            ids=[own.id or b"null" for _, _, own, _ in entries],
            included=None if included is None else ["{}" if row < 0 else included[row] for _, row, *_ in entries],
            labels=[own for _, _, own, _ in entries],
            texts=None if texts is None else [None if row < 0 else texts[row] for _, row, *_ in entries],
            index=[index for index, *_ in entries],
            faults=faults,
            skipped=given.skipped,
        ).place(records)

    def _row_labels(self, record: RoutedRecord) -> RowLabels:
        message = self._messages.read(record)
        return RowLabels(message.id, message.labels, record)
