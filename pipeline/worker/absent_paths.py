"""Warns once of settings that name parts of a record which none of the first records has."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.described import notes_on_paths, paths_of
from resonance.pipeline.files.survey import FileSurvey
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import SourceRecord

FEWEST: Final = 200
"""Records after which a part that none has counts as misspelt."""

MOST: Final = 10 * FEWEST
"""Records, usable or not, after which no more are looked at."""

NAMED: Final = ("input.id_path", "input.time_path", "input.text_path", "output.include")
"""Settings without whose part a record is no dead letter, which would say so."""

_log = logging.getLogger(__name__)


class AbsentPaths:
    """Looks at the first records of a worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen = FileSurvey()
        self._looked = 0
        paths = paths_of(settings) if settings.input.format == "json" and not settings.has_many else {}
        self._named: dict[str, Sequence[str]] = {setting: paths[setting] for setting in NAMED if setting in paths}

    def look(self, topic: str, records: Sequence[SourceRecord]) -> None:
        """Take records of a topic, and warn as soon as there are enough."""
        if not self._named or topic not in self._settings.input.topics:
            return
        for record in RecordColumns.of(records):
            # Deep records, too, are for the decoder to refuse.
            with suppress(orjson.JSONDecodeError, RecursionError):
                if isinstance(value := orjson.loads(record.value or b""), dict):
                    self._seen.add([value])
            self._looked += 1
            if self._seen.records >= FEWEST or self._looked >= MOST:
                for note in notes_on_paths(self._seen, self._settings, self._named):
                    _log.warning("in the first %d records: %s", self._seen.records, note)
                self._named, self._seen = {}, FileSurvey()
                return
