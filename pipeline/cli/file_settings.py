"""Settings for files that no settings describe: those that `resonance produce` would suggest."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resonance.pipeline.cli.file_options import topic_from
from resonance.pipeline.cli.options import load
from resonance.pipeline.cli.output import say
from resonance.pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.files.rows import Columns


def describes(settings: "config.Settings") -> bool:
    """Return whether the settings already say where the features stand."""
    given = settings.input
    named = given.features != type(given).model_fields["features"].default
    return bool(given.sparse is not None or named or given.format != "json")


def for_file(file: Path, columns: "Columns", *, skip_bad: bool, truth: str | None = None) -> Mapping[str, Any]:
    """Return the settings, by dotted name, that apply to a file's records where no source has them.

    What is found in the records is printed. A `truth` is no feature.
    """
    from resonance.pipeline.files import examination

    topic = {"input.topics": topic_from(file)}
    try:
        if describes(load(topic)):
            return topic
    except ConfigurationError:
        # The command reports it, unless its own options are what is missing.
        return topic
    found = examination.examine([file], columns, skip_bad=skip_bad, limit=None)
    for note in found.findings:
        say(f"note: {note}")
    suggested = found.suggestion.settings
    if isinstance(features := suggested.get("input.features"), list):
        suggested["input.features"] = [path for path in features if path != truth]
        say(f"input.features: {', '.join(suggested['input.features'])}")
    return topic | suggested
