"""``POST /assign``: the answer for a record that is not learned, from the models that the worker has now."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import orjson
from faust.types import TP
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.repartition.placing import NoPlaceError
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.scoring import Refusal, Scored
from resonance.pipeline.timestamps import TimeTexts
from resonance.pipeline.worker.http.status import WorkerStatus, named

ASSIGN_PATH: Final = "/assign"

Answer = tuple[int, bytes]
"""Status and body, a JSON object."""


class RecordAssignments:
    """Answers for records of the partitions that a worker has.

    Attributes
    ----------
    most : int
        Bytes that a record may have; one of a few more is refused with the reason of its dead letter.
    """

    def __init__(self, settings: Settings, status: WorkerStatus) -> None:
        self.most = settings.limits.record_bytes
        self._keyed = settings.is_keyed
        self._status = status
        self._texts = TimeTexts()

    async def answer(self, query: Mapping[str, str], value: bytes) -> Answer:
        """Return the answer for a record's value; `query` may have its ``key``, ``topic`` and ``partition``."""
        status = self._status
        placing, processor = status.placing, status.processor
        if self._keyed:
            return _error(501, "with hierarchy = keyed no worker has a whole tree; read the assignments")
        if placing is None or processor is None or status.phase != "running":
            return _error(503, status.waiting())
        key, partition = query.get("key"), query.get("partition", "-1")
        try:
            record = Record(query.get("topic", ""), int(partition), -1, int(time.time() * 1000), None, value)
            at, placed = placing.place(record if key is None else record._replace(key=key.encode()))
        except NoPlaceError as error:
            return _error(400, str(error))
        except ValueError:
            return _error(400, f"partition = {partition!a}: it is a number")
        except FaultError as error:
            return _answer(Scored(refusal=Refusal.of(error)))
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


def _answer(scored: Scored) -> Answer:
    if scored.refusal is None:
        return 200, scored.json()
    return 404 if scored.refusal.kind == "no_model" else 422, scored.json()


def _error(status: int, text: str) -> tuple[int, Any]:
    return status, orjson.dumps({"error": text})
