"""``POST /assign``: the answer for a record that is not learned, from the models that the worker has now."""

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import orjson
from faust.types import TP
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ResonanceError
from resonance.pipeline.records import Record, SourceRecord, TopicPartition
from resonance.pipeline.repartition.placing import NoPlaceError, Placing
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.mapping import message_mapping
from resonance.pipeline.task.scoring import Refusal, Scored
from resonance.pipeline.timestamps import TimeTexts
from resonance.pipeline.worker.http.status import WorkerStatus, named

ASSIGN_PATH: Final = "/assign"

AT_ONCE: Final = 64
"""Requests that are answered at a time; the next one is refused before its record is read."""

Answer = tuple[int, bytes]
"""Status and body, a JSON object."""

_log = logging.getLogger(__name__)


class RecordAssignments:
    """Answers for records of at most `most` bytes; one of a few more is refused with the reason of its dead letter.

    To be held while a request is read and answered is `room`; where it is locked, `AT_ONCE` are.
    """

    def __init__(self, settings: Settings, status: WorkerStatus) -> None:
        self.most = settings.limits.record_bytes
        self.room = asyncio.Semaphore(AT_ONCE)
        self._settings, self._status = settings, status
        # One thread: while the schema registry is away, those that wait for it leave the threads of other pages free.
        self._thread = ThreadPoolExecutor(1, "assign")
        self._texts = TimeTexts()

    async def answer(self, query: Mapping[str, str], value: bytes) -> Answer:
        """Return the answer for a record's value; `query` may have its ``key``, ``topic`` and ``partition``."""
        try:
            return await self._answered(query, value)
        except NoPlaceError as error:
            return _error(400, str(error))
        except FaultError as error:
            return _answer(Scored(refusal=Refusal.of(error)))
        except ResonanceError as error:
            return _error(503, str(error))
        except Exception as error:
            _log.exception("%s: a record could not be answered", ASSIGN_PATH)
            return _error(500, f"{type(error).__name__}: {error}; the log of this worker says where it was raised")

    async def _answered(self, query: Mapping[str, str], value: bytes) -> Answer:
        status = self._status
        placing, processor = status.placing, status.processor
        if self._settings.is_keyed:
            return _error(501, "with hierarchy = keyed no worker has a whole tree; read the assignments")
        if placing is None or processor is None or status.phase != "running":
            return _error(503, status.waiting())
        key, partition = query.get("key"), query.get("partition", "-1")
        try:
            number = int(partition)
        except ValueError:
            return _error(400, f"partition = {partition!a}: it is a number")
        record = Record(query.get("topic", ""), number, -1, int(time.time() * 1000), None, value)
        record = record if key is None else record._replace(key=key.encode())
        at, placed = await asyncio.get_running_loop().run_in_executor(self._thread, self._place, placing, record)
        tp = TP(*at)
        found = await asyncio.wrap_future(processor.score(tp, placed))
        if found is None:
            return _error(421, f"{named(tp)}, which learns such a record, is not assigned to this worker; ask another")
        if isinstance(found, Exception):
            raise found
        scored, position, moment = found
        if scored.model is not None:
            end = (status.consumer.ends() if status.consumer is not None else {}).get(tp)
            behind = None if end is None else max(end.stable - position, 0)
            shown = None if moment is None else self._texts[moment]
            scored = scored._replace(model=scored.model._replace(time=shown, behind=behind))
        return _answer(scored)

    def _place(self, placing: Placing, record: Record) -> tuple[TopicPartition, SourceRecord]:
        """Return where a record is learned; its schema is known then, and the processor need not ask the registry."""
        found = placing.place(record)
        if self._settings.is_framed:
            # What is wrong with the value is a part of the answer.
            with suppress(FaultError):
                self._mapping.parsed(record.value or b"")
        return found

    @cached_property
    def _mapping(self) -> InputMapping:
        return message_mapping(self._settings)


def _answer(scored: Scored) -> Answer:
    if scored.refusal is None:
        return 200, scored.json()
    return 404 if scored.refusal.kind == "no_model" else 422, scored.json()


def _error(status: int, text: str) -> tuple[int, Any]:
    return status, orjson.dumps({"error": text})
