"""What of a file does not fit the settings that describe its records already."""

from collections.abc import Iterator, Mapping, Sequence

from resonance.pipeline.config.fields import FIELD
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import first_of, nearest
from resonance.pipeline.files.clocks import is_rfc3339
from resonance.pipeline.files.kinds import Kinds, is_constant
from resonance.pipeline.files.notes import Note, hardly_varying, missing_in, notes_on_numbers, notes_on_times
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.sources import source_of
from resonance.pipeline.files.survey import FileSurvey
from resonance.pipeline.json_paths import ABSENT, find, parse_path


def notes_on_settings(seen: FileSurvey, settings: Settings, columns: Columns) -> list[Note]:
    """Return what keeps the records from being used as the settings say."""
    given, named = settings.input, paths_of(settings)
    notes = notes_on_paths(seen, settings, named)
    features = [
        path
        for path in named.get("input.features", ())
        if path in seen.columns and path not in settings.prepare.categories
    ]
    if given.sparse is None and not isinstance(given.features, str):
        notes += notes_on_numbers(seen, features, features)
        if settings.prepare.missing == "reject" and (missing := missing_in(seen, features)):
            most = max(seen.records - seen.columns[path].present for path in features)
            text = f"{missing}: these would be dead letters, unless prepare.missing is mean or a number"
            notes.append(Note(text, dead_letters=most))
        constant = [path for path in features if is_constant(seen.columns[path], seen.records)]
        if constant:
            reasons = ", ".join(f"{path} ({hardly_varying(seen.columns[path])})" for path in constant)
            notes.append(Note(f"features that separate nothing: {reasons}"))
    notes += _times(seen, given.time_path, columns)
    return [*notes, *(_keys(seen) if settings.stream == "key" and not columns.key else ())]


def paths_of(settings: Settings) -> dict[str, Sequence[str]]:
    """Return the paths into a record that settings name, by setting."""
    given, listed = settings.input, settings.input.features
    found = {f"input.{name}": getattr(given, name) for name in ("id_path", "time_path", "label_path", "text_path")}
    found["stream"] = (settings.stream or "").removeprefix(FIELD) if settings.stream_field else None
    features = (listed,) if isinstance(listed, str) else listed
    named = {"input.features": features} if given.sparse is None else {"input.sparse": (given.sparse,)}
    return (
        named
        | {setting: (path,) for setting, path in found.items() if path}
        | {"output.include": settings.output.include}
    )


def is_there(seen: FileSurvey, path: str) -> bool:
    """Return whether a record has a path, as far as they are known."""
    known = any(f"{each}.".startswith(f"{path}.") for each in seen.columns)
    return known or any(find(record, parse_path(path)) is not ABSENT for record in seen.head)


def notes_on_paths(seen: FileSurvey, settings: Settings, named: Mapping[str, Sequence[str]]) -> list[Note]:
    """Return a note on the paths of each setting that lead nowhere, with the nearest ones and those that there are."""
    notes = []
    needed = {"stream", *(["input.features"] if settings.prepare.missing == "reject" else ())}
    for setting, paths in named.items() if seen.records else ():
        if missing := [f"{path}{nearest(path, seen.columns)}" for path in paths if not is_there(seen, path)]:
            text = f"{setting} names what no record has: {', '.join(missing)}; it has {first_of([*seen.columns], 20)}"
            notes.append(Note(text, dead_letters=seen.records if setting in needed else 0))
    return notes


def _times(seen: FileSurvey, time_path: str | None, columns: Columns) -> Iterator[Note]:
    path = next(iter(Kinds(seen).clocks), None) if time_path is None else time_path
    if path not in seen.columns:
        return
    if not is_rfc3339(seen.columns[path]):
        yield from notes_on_times(seen, path, columns, columns.key)
    elif time_path is None and not columns.time:
        text = f"{path} has times, but input.time_path is not set: outputs name the time of sending"
        yield Note(text, "as Kafka timestamps", Columns(time=(path,)))


def _keys(seen: FileSurvey) -> Iterator[Note]:
    """Yield a note on the column that could be the key, without which records have no stream."""
    found, why = source_of(seen, Kinds(seen)), 'without a key all records would be dead letters (stream = "key")'
    if found is None:
        yield Note(f"{why}; name its column: --key COLUMN", dead_letters=seen.records)
    else:
        yield Note(f"{found.naming}, and {why}", "as their key", Columns(key=found.paths), dead_letters=seen.records)
