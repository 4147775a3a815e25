"""Look at the records of a file before they are produced, and go on while they are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import counted
from resonance.pipeline.files.described import notes_on_paths, notes_on_settings, paths_of
from resonance.pipeline.files.notes import Note
from resonance.pipeline.files.rows import Columns, FileRecord
from resonance.pipeline.files.several_files import SeveralFiles
from resonance.pipeline.files.suggest import Suggestion, suggest
from resonance.pipeline.files.survey import FileSurvey

FEW_BAD: Final = 0.01
"""Share of the lines that are a few bad ones among good ones: of more the file is read wrongly."""

EXAMINED: Final = 100_000
"""Records that are looked at before the first one is produced."""


@dataclass(slots=True)
class Examination:
    """What the records of a file hold, as these columns read them."""

    columns: Columns
    decimal: str
    """The decimal separator with which they were read."""
    more: bool
    """Whether the file has records that were not looked at."""
    seen: FileSurvey
    given: Settings
    """Settings of the command."""
    described: Settings | None = None
    """The same, where they describe the records already."""
    chosen: str | Sequence[str] | None = None
    """The features, where these are no guess."""
    keyless: int = 0
    """Records without a key, where a column gives it."""
    skipped: int = 0
    """Bad lines among them that were left out."""
    bad: str = ""
    """The first of these, and what is wrong with it."""

    @property
    def findings(self) -> list[Note]:
        """What is worth knowing before the records are produced."""
        if self.described is None:
            suggestion = self.suggestion
            by_key, named = suggestion.stream == "key", paths_of(self.given)
            others = {
                setting: paths for setting, paths in named.items() if setting not in ("input.features", "input.sparse")
            }
            found = [*suggestion.findings, *notes_on_paths(self.seen, self.given, others)]
        else:
            found, by_key = notes_on_settings(self.seen, self.described, self.columns), self.described.stream == "key"
        if self.keyless and by_key:
            where = f"{' or '.join(self.columns.key)} is empty in {self.keyless:,} of {self.seen.records:,} records"
            text = f'{where}: without a key these would be dead letters (stream = "key")'
            found.insert(0, Note(text, dead_letters=self.keyless))
        if self.bad and not self.columns.skip_bad:
            text = f"{counted(self.skipped, 'bad line')}, the first: {self.bad}"
            found.insert(0, Note(text, "leave such lines out", Columns(skip_bad=True)))
        return found

    @property
    def few_are_bad(self) -> bool:
        """Whether bad lines are few among the others."""
        return self.skipped <= FEW_BAD * (self.seen.records + self.skipped)

    @property
    def suggestion(self) -> Suggestion:
        """The settings that suit the records so far."""
        found = suggest(self.seen, self.columns, self.chosen, self.given.input.text_path)
        named = {*self.given.prepare.categories}.union(*paths_of(self.given).values())
        found.texts[:] = [path for path in found.texts if path not in named]
        for path in named & found.unused.keys():
            del found.unused[path]
        # Who names categories names all.
        for path in [*found.flags] if self.given.prepare.categories else named & found.flags.keys():
            del found.flags[path]
        if self.columns.key and found.stream == "topic" and "stream" not in self.given.model_fields_set:
            few = f"too few of each {' and '.join(self.columns.key)} for a model of its own, so all have one"
            found.notes.append(Note(f"{few}; --set stream=key gives each its own and compares them"))
        if self.decimal == "," and self.columns.decimal is None:
            found.notes.insert(0, Note("numbers have a decimal comma: 21,5 is 21.5; --decimal . reads them as text"))
        several = [
            path for path, each in self.seen.columns.items() if each.only(list) and dict in map(type, each.sample[0])
        ]
        for path in several:
            found.notes.insert(0, Note(f"{path} holds several records; take them apart: jq -c '.{path}[]' FILE > NEW"))
        if len(self.seen.head) == 1 and not several and {dict, list} & {*map(type, self.seen.head[0].values())}:
            how = 'on a line of its own; in pandas: to_json(FILE, orient="records", lines=True)'
            found.notes.insert(0, Note(f"the file is a single record; if it holds several, write each {how}"))
        return found

    def add(self, records: list[FileRecord]) -> None:
        """Look at more records."""
        self.seen.add([orjson.loads(record.value) for record in records])
        if self.columns.key:
            self.keyless += sum(record.key is None for record in records)

    def rest(self, batches: Iterable[list[FileRecord]], limit: int | None) -> Iterator[list[FileRecord]]:
        """Yield the batches of the file, `limit` records at most, and look at those that were not looked at before."""
        known = self.seen.records
        if self.described is not None:
            # Nothing is suggested, so the first ones are enough.
            yield from limited(batches, limit)
            return
        for batch in limited(batches, limit):
            if new := batch[known:]:
                self.add(new)
            known = max(known - len(batch), 0)
            yield batch
        self.more = False


def examine(
    paths: Sequence[Path],
    columns: Columns,
    settings: Settings,
    *,
    tolerant: bool,
    limit: int | None,
    described: Settings | None = None,
    chosen: str | Sequence[str] | None = None,
) -> Examination:
    """Look at the first records of some files, which the settings may describe already, or of which they name a part.

    If `tolerant`, bad lines are counted whatever the columns say. Raises what `SeveralFiles` raises.
    """
    found = Examination(columns, ".", False, FileSurvey(), settings, described, chosen)
    with SeveralFiles(paths, replace(columns, skip_bad=columns.skip_bad or tolerant)) as source:
        batches = source.batches()
        for batch in limited(batches, min(limit or EXAMINED, EXAMINED)):
            found.add(batch)
        found.decimal, found.skipped, found.bad = source.decimal, source.skipped, source.bad
        found.more = found.seen.records != limit and next(batches, None) is not None
        return found


def limited(batches: Iterable[list[FileRecord]], limit: int | None) -> Iterator[list[FileRecord]]:
    """Yield batches with no more records than the limit."""
    left = limit
    for batch in batches:
        yield batch if left is None else batch[:left]
        if left is not None:
            left -= len(batch)
            if left <= 0:
                return
