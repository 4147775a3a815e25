"""What of a file does not fit the settings that describe its records already."""

from collections.abc import Iterator, Sequence

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import nearest
from resonance.pipeline.files.kinds import Kinds, is_constant, is_rfc3339
from resonance.pipeline.files.notes import Note, hardly_varying, notes_on_numbers, notes_on_times
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.sources import source_of
from resonance.pipeline.files.survey import FileSurvey


def notes_on_settings(seen: FileSurvey, settings: Settings, columns: Columns) -> list[Note]:
    """Return what keeps the records from being used as the settings say."""
    given = settings.input
    listed = (given.features,) if isinstance(given.features, str) else given.features
    named = {"input.features": listed} if given.sparse is None else {"input.sparse": (given.sparse,)}
    for name in ("id_path", "time_path", "label_path", "text_path"):
        if (path := getattr(given, name)) is not None:
            named[f"input.{name}"] = (path,)
    tolerant = settings.prepare.missing != "reject"
    notes = [note for setting, paths in named.items() for note in _absent(seen, setting, paths, tolerant)]
    features = [path for path in listed if path in seen.columns and path not in settings.prepare.categories]
    if given.sparse is None and not isinstance(given.features, str):
        notes += [*notes_on_numbers(seen, features, features), *_gaps(seen, features, settings)]
        constant = [path for path in features if is_constant(seen.columns[path], seen.records)]
        if constant:
            reasons = ", ".join(f"{path} ({hardly_varying(seen.columns[path])})" for path in constant)
            notes.append(Note(f"features that separate nothing: {reasons}"))
    notes += _times(seen, given.time_path, columns)
    return [*notes, *(_keys(seen) if settings.stream == "key" and columns.key is None else ())]


def _absent(seen: FileSurvey, setting: str, paths: Sequence[str], tolerant: bool) -> Iterator[Note]:
    """Yield a note on the paths of a setting that lead nowhere, each with the nearest one."""
    there = [path for path in paths if any(f"{known}.".startswith(f"{path}.") for known in seen.columns)]
    if missing := [f"{path}{nearest(path, seen.columns)}" for path in paths if path not in there]:
        unused = seen.records if setting == "input.features" and not tolerant else 0
        yield Note(f"{setting} names what no record has: {', '.join(missing)}", dead_letters=unused)


def _gaps(seen: FileSurvey, features: Sequence[str], settings: Settings) -> Iterator[Note]:
    gaps = {path: seen.records - seen.columns[path].present for path in features}
    most = max(gaps, key=lambda path: gaps[path], default=None)
    if most is not None and gaps[most] and settings.prepare.missing == "reject":
        yield Note(
            f"{most} is missing in {gaps[most]:,} of {seen.records:,} records: these would be dead letters, unless "
            "prepare.missing is mean or a number",
            dead_letters=gaps[most],
        )


def _times(seen: FileSurvey, time_path: str | None, columns: Columns) -> Iterator[Note]:
    path = next(iter(Kinds(seen).clocks), None) if time_path is None else time_path
    if path not in seen.columns:
        return
    if not is_rfc3339(seen.columns[path]):
        yield from notes_on_times(seen, path, columns)
    elif time_path is None and not columns.time:
        text = f"{path} has times, but input.time_path is not set: outputs name the time of sending"
        yield Note(text, "as Kafka timestamps", Columns(time=(path,)))


def _keys(seen: FileSurvey) -> Iterator[Note]:
    """Yield a note on the column that could be the key, without which records have no stream."""
    found, why = source_of(seen, Kinds(seen)), 'without a key all records would be dead letters (stream = "key")'
    if found is None or found.beside:
        why = f"{found.naming}, and {why}" if found else why
        yield Note(f"{why}; name its column: --key COLUMN", dead_letters=seen.records)
    else:
        yield Note(f"{found.naming}, and {why}", "as their key", Columns(key=found.path), dead_letters=seen.records)
