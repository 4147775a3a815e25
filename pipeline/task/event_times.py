"""The clock of a partition: the times of its records, which decide what is silent."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np
from resonance.engine.base import IntArray
from resonance.engine.text import times as time_texts
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.task.decode.record_batch import RecordBatch

_timestamp: Final = attrgetter("timestamp")


def event_times(records: Sequence[SourceRecord], batch: RecordBatch) -> IntArray:
    """Return the times of the usable records of a batch in milliseconds since 1970, none beyond Kafka's timestamp.

    Otherwise a source with a wrong clock would make all the others silent.
    """
    times = time_texts.times_of(batch.times)
    usable = records if len(batch.index) == len(records) else [records[i] for i in batch.index]
    stamps = np.fromiter(map(_timestamp, usable), np.int64, len(usable))
    return np.where(stamps > 0, np.minimum(times, stamps), times)
