"""Settings for files that no settings describe: those that `resonance produce` would suggest."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from resonance.pipeline.cli.file_options import topic_from
from resonance.pipeline.cli.options import load, load_settings, shared
from resonance.pipeline.cli.output import say
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.logs import printable

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.files import examination, notes
    from resonance.pipeline.files.rows import Columns


def describes(settings: "config.Settings") -> bool:
    """Return whether the settings already say where the features stand."""
    given = settings.input
    named = given.features != type(given).model_fields["features"].default
    return bool(given.sparse is not None or named or given.format != "json")


def confirmed(note: "notes.Note") -> bool:
    """Return whether the option of a note is wanted, by a question on the terminal."""
    try:
        return typer.confirm(printable(f"  {note.remedy}: {note.option}?"), default=note.advised, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def examined(
    files: list[Path],
    columns: "Columns",
    skip_bad: bool,
    limit: int | None,
    taken: "Callable[[notes.Note], bool] | None",
    described: "config.Settings | None",
    chosen: str | Sequence[str] | None = None,
) -> "examination.Examination":
    """Look at the records, print what stands in their way, and look again with the options that are taken."""
    from resonance.pipeline.files import examination

    shown: set[str] = set()
    while True:
        found = examination.examine(files, columns, skip_bad=skip_bad, limit=limit, described=described, chosen=chosen)
        for note in found.findings:
            if note.about in shown:
                continue
            shown.add(note.about)
            say(f"note: {note.text if note.remedy and taken is confirmed else note}")
            if note.remedy and taken is not None and taken(note):
                columns = columns.with_(note.change)
        if columns == found.columns:
            return found


def for_file(
    file: Path, columns: "Columns", skip_bad: bool, *, yes: bool, truth: str | None = None
) -> tuple[Mapping[str, Any], "Columns"]:
    """Return the settings, by dotted name, that apply to a file's records where no source has them, and its columns.

    What is found in the records is printed, and with `yes` the options that this advises are taken. A `truth` is no
    feature. Features of the command line stand, and the rest is found for these; settings of a file are complete.
    """
    topic = dict.fromkeys(("name", "input.topics"), topic_from(file))
    try:
        given = load(topic)
        if given.input.format != "json" or describes(load_settings(shared.config, None, topic, **shared.named)):
            return topic, columns
    except ConfigurationError:
        # The command reports it, unless its own options are what is missing.
        return topic, columns
    chosen = (given.input.sparse or given.input.features) if describes(given) else None
    taken = (lambda note: note.advised) if yes else None
    found = examined([file], columns, skip_bad, None, taken, None, chosen)
    suggested = found.suggestion.settings
    if chosen is not None:
        del suggested["input.features"]
        suggested["prepare.categories"] = found.suggestion.categories
    elif not {"input.features", "input.sparse"} & suggested.keys():
        what = "no column holds numbers; see the notes, or name input.features" if found.seen.records else "no records"
        raise ConfigurationError(f"{file}: {what}")
    if found.columns != columns:
        say(f"taken: {shlex.join(found.columns.options)}")
    if isinstance(features := suggested.get("input.features"), list):
        paths = dict.fromkeys((*features, *given.prepare.categories))
        suggested["input.features"] = [path for path in paths if path != truth]
        say(f"input.features: {', '.join(suggested['input.features'])}")
    return topic | suggested, found.columns
