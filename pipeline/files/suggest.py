"""Settings that suit undescribed records: numbers become features, ids and times are known by name and value."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from resonance.pipeline.config.file import as_toml, written
from resonance.pipeline.errors import some_of
from resonance.pipeline.files.clocks import is_rfc3339, times_of
from resonance.pipeline.files.counters import grows_within, jumping_back
from resonance.pipeline.files.directions import is_direction
from resonance.pipeline.files.explained import explaining, no_products
from resonance.pipeline.files.identities import named_by, same_for_each
from resonance.pipeline.files.kinds import (
    Kinds,
    grows,
    is_code,
    is_constant,
    is_constant_text,
    is_counter,
    is_marked,
    is_prose,
    is_rare_flag,
    is_status,
    is_version,
    last,
    names_each,
    names_kinds,
    positions_in,
)
from resonance.pipeline.files.notes import (
    NOTHING,
    Note,
    as_text,
    hardly_varying,
    missing_in,
    noted_as_numbers,
    notes_on,
)
from resonance.pipeline.files.phases import is_phase
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.sources import comes_again, each_has_enough, source_of
from resonance.pipeline.files.survey import FEW, MAX_NAMES, Column, FileSurvey
from resonance.pipeline.files.unused import too_many, unused_in
from resonance.pipeline.json_paths import escaped, parse_path

FEWEST_SPARSE: Final = 40
"""Fewest names of numbers in an object that counts as sparse."""

MAX_FULL: Final = 0.5
"""Largest share of these names that a record has on average."""

LISTED: Final = 20
"""Most columns that a note on what is left out names; the settings name all."""

OF_THE_KEY: Final = "names what the records are of"
"""Why a number that is the key, or a part of it, is no feature."""

STREAMS: Final = {
    "topic": 'one model for all records; "partition": one for each partition, "key": one for each key',
    "key": 'one model for each key; "topic": one for all records, "partition": one for each partition',
}
"""What a choice of `stream` means, beside the others."""

OTLP_ROOTS: Final = {"resourceSpans": "otlp_spans", "resourceMetrics": "otlp_metrics", "resourceLogs": "otlp_logs"}
"""What OpenTelemetry's requests have in JSON, and the formats of these."""

AT_THE_MEAN: Final = (
    '"mean" places such records between the clusters, where they may form clusters of their own; "reject" makes them '
    "dead letters."
)
"""What `prepare.missing` does to clusters."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Settings that suit the records."""

    features: list[str] | str
    """Paths to numbers, or one path to an array of them; empty where nothing is a number, or numbers are sparse."""
    sparse: str | None
    """Path to an object name -> number of which each record has only a few names."""
    id_path: str | None
    id_reason: str
    """Why it is the id; empty where its name says so."""
    time_path: str | None
    missing: str
    """Which features are missing, in how many records (`missing_in`); empty for none."""
    left_out: dict[str, str]
    """Why a column of numbers, or of one text, is no feature, by path."""
    timestamps: str | None
    """Path to times that are only Kafka timestamps, because `time_path` cannot read them."""
    categories: dict[str, list[str]]
    """Columns with few texts or integers, by path; they could be features."""
    stream: Literal["key", "topic"]
    """Which records should share a model."""
    notes: list[Note]
    """What is worth knowing besides."""
    text_path: str | None = None
    """Path to texts that give clusters keywords, where their features are numbers without names."""
    texts: list[str] = field(default_factory=list)
    """Columns of texts that come again, or of true and false, and of nothing else: `prepare.categories` takes them."""
    flags: dict[str, list[str]] = field(default_factory=dict)
    """Values of columns of true and false, one of them rare, by path: categories among the features."""
    unused: dict[str, str] = field(default_factory=dict)
    """Why a column is used for nothing else, by path."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, by dotted name."""
        found: dict[str, Any] = {"stream": self.stream}
        if self.features:
            found["input.features"] = [*self.features, *self.flags] if self.flags else self.features
        if self.flags:
            found["prepare.categories"] = self.flags
        if self.sparse is not None:
            found |= {"input.sparse": self.sparse, "engine.name": "sa_art"}
        if self.id_path:
            found["input.id_path"] = self.id_path
        if self.time_path:
            found["input.time_path"] = self.time_path
        if self.text_path:
            found["input.text_path"] = self.text_path
        if self.missing:
            found["prepare.missing"] = "mean"
        return found

    @property
    def findings(self) -> list[Note]:
        """The notes, and those on what is left out."""
        notes = [*self.notes]
        if reasons := [f"{path} ({reason})" for path, reason in self.unused.items()]:
            notes.append(Note(f"not used: {some_of(reasons, LISTED)}"))
        if self.flags:
            notes.append(Note(f"{some_of(list(self.flags), LISTED)}: true and false, one of them rare, so a category"))
        if self.texts:
            them = "it" if len(self.texts) == 1 else "them"
            why = f"no number, so a change in {them} is not seen; prepare.categories takes {them}"
            notes.append(Note(f"left out: {some_of(self.texts, LISTED)} ({why})"))
        # The note or the option of the key says so already.
        if reasons := [f"{path} ({reason})" for path, reason in self.left_out.items() if reason != OF_THE_KEY]:
            notes.append(Note(f"left out of the features: {some_of(reasons, LISTED)}"))
        return notes


def suggest(
    seen: FileSurvey,
    columns: Columns = NOTHING,
    chosen: str | Sequence[str] | None = None,
    text_path: str | None = None,
) -> Suggestion:
    """Guess the settings from what the columns hold, and note what stands in the way.

    Some hundred records are enough; with all of them nothing is missed. `columns` are the options that they were read
    with, `chosen` the features, where these are no guess: of the texts among them the values are found. `text_path` is
    the setting, where it is given.
    """
    kinds = Kinds(seen)
    sparse = _sparse_object(kinds.numbers, seen) if chosen is None else None
    numbers = kinds.numbers if sparse is None else []
    arrays = [path for path, each in seen.columns.items() if each.only(list) and all(map(_is_array, each.sample))]
    as_array = bool(arrays) and len(seen.columns[arrays[0]].sample[0]) > len(numbers)
    source = source_of(seen, kinds)
    sources = columns.key or (source.paths if source else ())
    # What counts for each oven does so whatever the key is, and whatever it bakes.
    each = [paths for own in (sources, source.paths if source else ()) for paths in (no_products(own), own)]
    counting = [paths for paths in dict.fromkeys(each) if paths and seen.columns.keys() >= {*paths}]
    models = source.paths if source and source.certain and not columns.key else columns.key
    left_out = {} if as_array else _left_out(seen, numbers, sources, counting, comes_again(seen, models))
    features = arrays[0] if as_array else [path for path in numbers if path not in left_out]
    if chosen is not None:
        as_array, features = chosen in arrays, chosen if isinstance(chosen, str) else [*chosen]
    named = [features] if isinstance(features, str) else features
    in_sparse = [path for path in kinds.numbers if _parent(path) == sparse]
    no_features = set(kinds.numbers).difference(named, in_sparse)
    notes = notes_on(seen, kinds, columns, source, no_features)
    if sparse is not None:
        notes.append(Note(f"{sparse} has few of its many names in each record, so they are taken for sparse"))
        values = [value for path in in_sparse for value in seen.columns[path].sample]
        if any(type(value) in (int, float) and value > 1 for value in values):
            notes.append(Note('Its values go beyond 1, which is what they become: say prepare.ranges, for "*"'))
    if seen.records and not features and sparse is None:
        form = next((form for root, form in OTLP_ROOTS.items() if root in seen.columns), None)
        of_requests = f"These are requests of OpenTelemetry: set input.format = {form} and its features (docs/data.md)"
        notes.append(Note(of_requests if form else "No column holds numbers: name those to use as input.features"))
    named_ids = [path for path in kinds.ids if seen.columns[path].unique and seen.columns[path].present == seen.records]
    others = seen.columns.keys() - {*kinds.ids, *kinds.clocks, *kinds.labels}.difference(named) - {*numbers}
    left_out |= {path: _of_label(seen.columns[path], path in kinds.unsure) for path in kinds.labels}
    left_out |= {
        path: f"{next(iter(column.words))} in all records"
        for path, column in seen.columns.items()
        if path in others and is_constant_text(column, seen.records)
    }
    texts = [path for path in seen.columns if path in others and is_prose(seen.columns[path])]
    if text_path is None and as_array and texts:
        text_path = max(texts, key=lambda path: sum(map(len, seen.columns[path].sample)))
    left_out |= {path: "texts: input.text_path gives clusters keywords" for path in texts if path != text_path}
    if chosen is not None:
        left_out = {}
    stream = _stream_of(seen, columns.key)
    one_by_one = features and sparse is None and not as_array and chosen is None
    rare = [path for path in others if one_by_one and is_rare_flag(seen.columns[path])]
    flags = {path: _values_of(seen.columns[path]) for path in seen.columns if path in rare}
    others -= flags.keys()
    # The key is the same in all records of a model.
    same = columns.key if stream == "key" else ()
    categories = {
        # The texts among numbers, such as N/A, stand for missing ones.
        path: _values_of(column, path in numbers)
        for path, column in seen.columns.items()
        if path not in same
        and (chosen is None or path in named)
        and (
            (path in {*others, *kinds.unsure} and _has_few_texts(column, seen.records))
            or (path in left_out and (is_code(path, column, seen.records) or is_status(path, column, seen.records)))
        )
    }
    unique = [path for path in seen.columns if path in others and names_each(seen.columns[path], seen.records)]
    ids = sorted(named_ids, key=lambda path: last(path).lower() != "id") or unique
    for path in [] if ids else [path for path in kinds.ids if seen.columns[path].unique][:1]:
        if gap := seen.records - seen.columns[path].present:
            count = f"missing in {gap:,} of {seen.records:,} records"
            notes.append(Note(f"{path} is {count}, so it is not taken as their id: --set input.id_path={path} does so"))
    compared = "none" if seen.records <= MAX_NAMES else f"none of the first {MAX_NAMES:,}"
    reason = f"a text in every record, and {compared} comes twice" if ids and not named_ids else ""
    clock = next(iter(kinds.clocks), None)
    time = clock if clock is not None and is_rfc3339(seen.columns[clock]) else None
    id_path, timestamps = next(iter(ids), None), " ".join(columns.time) or None if time is None else None
    missing = missing_in(seen, named, times_of(seen, clock) if clock is not None else ())
    used = {*columns.key, *columns.time, *sources, *left_out, id_path or "", text_path or ""}
    others -= used.union(*(times_of(seen, path) for path in kinds.clocks))
    others |= {path for path in kinds.ids if path not in used}
    texts = [path for path in seen.columns if chosen is None and path in others and _comes_again(seen, path)]
    key = columns.key or (source.paths if source and source.certain else ())
    notes += _explaining(seen, kinds, key, texts) if one_by_one else ()
    said = {*used, *flags, *texts, *named, *in_sparse, *noted_as_numbers(seen, kinds, no_features)}
    said |= {*times_of(seen, clock)} if clock is not None and not columns.time else set()
    unused = unused_in(seen, kinds, said, sparse or (features if isinstance(features, str) else ""))
    return Suggestion(
        features, sparse, id_path, reason, time, missing, left_out, timestamps, categories, stream, notes, text_path,
        texts, flags, {} if chosen is not None else unused,
    )  # fmt: skip


def _explaining(seen: FileSurvey, kinds: Kinds, key: Sequence[str], texts: Sequence[str]) -> Iterator[Note]:
    """Yield a note on each column of texts that is left out and explains most of a feature, and is no state."""
    known = [each for each in key if each in seen.columns]
    for path, what in explaining(seen, kinds, known):
        if path in texts and not is_phase(seen, path, known):
            option = shlex.join(Columns(key=(*key, path)).options)
            compared = f"to compare each with itself alone: {option}"
            if known and not each_has_enough(seen, (*known, path)):
                compared = f"too few records of each {' and '.join((*known, path))} for a model of its own"
            yield Note(f"{path} explains {what}, so another one of it is a change of these; {compared}")


def _values_of(column: Column, is_number: bool = False) -> list[str]:
    """Return the values of a category as the settings write them."""
    return [str(each) for each in sorted(column.few if is_number else column.words or column.few)] or ["false", "true"]


def _of_label(column: Column, is_unsure: bool) -> str:
    """Return why a column of labels is no feature."""
    values = sorted(map(str, column.counts or column.few))
    listed = " or ".join(values) if len(values) < 3 else f"{len(values)} values"
    if is_unsure:
        use = "prepare.categories takes" if column.only(str) else "input.features may name"
        return f"{listed}: labels, for evaluate --truth, or a state, which {use}"
    return f"{listed}: labels, for evaluate --truth"


def _left_out(
    seen: FileSurvey,
    numbers: Sequence[str],
    sources: Sequence[str],
    counting: Sequence[Sequence[str]],
    has_models: bool,
) -> dict[str, str]:
    """Return why columns of numbers make bad features, by path; nothing where no other column would be left.

    `counting` are the columns, or several together, of whose names each may have counters of its own; `has_models` says
    whether each source has a model.
    """
    found = {}
    positions = positions_in(numbers) if counting else ()

    def is_own(path: str) -> bool:
        # To a model of all sources a rated power says which of them are alike, but no id does.
        return has_models or (seen.columns[path].only(int) and len(seen.columns[path].few) > FEW)

    for path in numbers:
        column = seen.columns[path]
        if is_constant(column, seen.records):
            found[path] = hardly_varying(column)
        elif path in sources:
            found[path] = OF_THE_KEY
        elif is_version(path, column):
            found[path] = "names a version"
        elif sources and is_own(path) and same_for_each(seen, path, sources):
            found[path] = f"the same in all records of each {' and '.join(sources)}"
        elif 2 * column.present < seen.records:
            found[path] = f"missing in {seen.records - column.present:,} of {seen.records:,} records"
        elif is_counter(column, seen.records):
            found[path] = "counts the records, in even steps"
        elif column.falls and (own := next((each for each in counting if grows_within(seen, path, each)), None)):
            found[path] = f"counts up or down for each {' and '.join(own)}: a clock, a meter or a tank"
        elif grows(column, seen.records):
            often = "once" if column.restarts == 1 else f"{column.restarts:,} times"
            again = f"grows, and begins again {often}" if column.restarts else "never becomes less"
            found[path] = f"{again}: a clock or a meter"
        elif names_kinds(path, column):
            found[path] = "names something, or a part of a date"
        elif is_direction(path, column):
            found[path] = "a direction in degrees, where 359 is beside 1: its sine and its cosine make features"
        elif path in positions:
            found[path] = "where it is"
        elif reason := named_by(seen, path):
            found[path] = reason
        elif is_code(path, column, seen.records):
            found[path] = f"{len(column.few)} different integers, which may name kinds"
        elif is_status(path, column, seen.records):
            found[path] = f"{len(column.few)} different integers, a status or a quality by its name"
    for own in counting or [()]:
        for path in jumping_back(seen, [path for path in numbers if path not in found], own):
            each = f" for each {' and '.join(own)}" if own else ""
            found[path] = f"goes one way{each} and now and then jumps back: a tank, which input.features may name"
    return found if len(found) < len(numbers) else {}


def _has_few_texts(column: Column, records: int) -> bool:
    if column.only(bool):
        return len(set(column.sample)) > 1
    return 1 < len(column.words) <= FEW and records >= 4 * len(column.words) and not is_marked(column)


def _comes_again(seen: FileSurvey, path: str) -> bool:
    """Return whether a column has texts that come again, and are no numbers in another way of writing; or flags."""
    column = seen.columns[path]
    if column.only(bool):
        return True
    is_text = is_version(path, column) or as_text(column) is None
    return column.only(str) and not (column.unique or too_many(column)) and len(column.words) > 1 and is_text


def _stream_of(seen: FileSurvey, key: Sequence[str]) -> Literal["key", "topic"]:
    """Return which records should share a model: those of a key, where keys come again, else all."""
    return "key" if comes_again(seen, key) else "topic"


def as_file(
    found: Suggestion, topic: str, *, name: str, broker: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> str:
    """Return a ``resonance.toml`` that reads the records, with what was found as comments.

    `broker` are its settings, of which those of the connection are taken over, secrets masked; `more` are settings, by
    dotted name, that go before those that were found.
    """
    connection = {member: broker[member] for member in ("bootstrap", "librdkafka") if member in broker}
    values: dict[str, Any] = {"name": name, "stream": found.stream, "broker": connection}
    values["input"] = {"topics": [topic]}
    for setting, value in (found.settings | dict(more or {})).items():
        section, _, member = setting.rpartition(".")
        (values.setdefault(section, {}) if section else values)[member] = value
    text = as_toml(values).replace(
        f'stream = "{found.stream}"', f'stream = "{found.stream}"  # {STREAMS[found.stream]}', 1
    )
    if found.id_path and found.id_reason:
        line = f"id_path = {written(found.id_path)}"
        text = text.replace(f"\n{line}\n", f"\n{line}  # {found.id_reason}\n", 1)
    if found.missing:
        text += f"# {found.missing}\n# {AT_THE_MEAN}\n"
    if found.timestamps:
        text += "\n# Outputs have the Kafka timestamps: input.time_path reads RFC 3339 times with a zone, "
        text += f"and not all of {found.timestamps} are.\n"
    if found.categories:
        text += "\n# Columns with few values can be features, too: add them to input.features and here.\n"
        text += "".join(
            f"# {line}\n" for line in as_toml({"prepare": {"categories": found.categories}}).splitlines()[1:]
        )
    if found.left_out:
        text += "\n# Left out of the features:\n"
        text += "".join(f"#   {path}: {reason}\n" for path, reason in found.left_out.items())
    return text + "".join(f"\n# {note}{'' if note.remedy else '.'}\n" for note in found.notes)


def _parent(path: str) -> str:
    """Return the path of the object that holds a member; empty for the record itself."""
    return ".".join(map(escaped, parse_path(path)[:-1]))


def _sparse_object(numbers: Sequence[str], seen: FileSurvey) -> str | None:
    """Return the object with the most names of which the records have only few; None where there is none."""
    groups: dict[str, list[str]] = {}
    for path in numbers:
        groups.setdefault(_parent(path), []).append(path)
    groups.pop("", None)
    for parent, paths in sorted(groups.items(), key=lambda group: -len(group[1])):
        present = sum(seen.columns[path].present for path in paths)
        if len(paths) >= FEWEST_SPARSE and present <= MAX_FULL * len(paths) * seen.records:
            return parent
    return None


def _is_array(value: Any) -> bool:
    return bool(value) and all(type(element) in (int, float) for element in value)
