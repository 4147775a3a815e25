"""The settings reference of the documentation, made from the text where each setting is defined."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from resonance.engine import ENGINES
from resonance.engine.parameters import Parameter
from resonance.pipeline.config.file import written
from resonance.pipeline.config.messages import BOUNDS
from resonance.pipeline.config.sections import EngineSection, Section
from resonance.pipeline.config.settings import Settings

INTRODUCTION = """\
# Settings

`resonance settings` prints the effective values, with `--reference` this page. A setting comes from the first of

1. the command line: `--input.topics a,b` or `--set input.topics=a,b`,
2. the environment, where secrets belong: `RESONANCE_INPUT__TOPICS=a,b`,
3. the file `resonance.toml`, or `--config FILE`: `topics = ["a", "b"]` under `[input]`,
4. its default, which stands here.

Outside a file lists are `a,b` or JSON, tables are JSON, and `none` unsets a value.
"""


HUGE = 10**6
"""A range is written without bounds that are so large, or so small."""


class SettingReference(NamedTuple):
    """One setting in the documentation."""

    name: str
    default: str
    """As the settings file has it; ``required`` or ``none`` where there is no value."""
    meaning: str


def reference() -> dict[str, list[SettingReference]]:
    """Return every setting by section: those outside sections under ``""``, an engine's own under ``engine: name``."""
    sections: dict[str, list[SettingReference]] = {"": []}
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if not (isinstance(section, type) and issubclass(section, Section | EngineSection)):
            sections[""].append(_row(name, field))
            continue
        sections[name] = [_row(f"{name}.{key}", inner) for key, inner in section.model_fields.items()]
        if section is EngineSection:
            for engine in ENGINES.values():
                sections[f"{name}: {engine.name}"] = [_parameter(each) for each in engine.parameters]
    return sections


def as_markdown() -> str:
    """Return the reference as the Markdown page of the documentation."""
    lines = [INTRODUCTION]
    for section, rows in reference().items():
        name, _, engine = section.partition(": ")
        if engine:
            lines += _engine(engine, rows)
        elif name:
            text = _text(Settings.model_fields[name])
            lines += [f"## {name}", "", *([text, ""] if text else []), *map(_item, rows), ""]
        else:
            lines += ["## Outside the sections", "", *map(_item, rows), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _engine(name: str, rows: Sequence[SettingReference]) -> Iterator[str]:
    """Yield the part of an engine; of parameters that an engine before it explains, it has the defaults alone."""
    yield from (f"### {name}", "")
    parameters = ENGINES[name].parameters
    own = [*zip(rows, parameters, strict=True)]
    if (model := _extended(name)) != name:
        own = own[len(ENGINES[model].parameters) :]
        yield from (f"As with `{model}`{', and:' if own else '.'}", "")
    names = [*ENGINES]
    above = {(each.name, each.meaning) for other in names[: names.index(name)] for each in ENGINES[other].parameters}
    if known := [f"`{row.name} = {row.default}`" for row, each in own if (each.name, each.meaning) in above]:
        yield from (f"As above: {', '.join(known)}.", "")
    if items := [_item(row) for row, each in own if (each.name, each.meaning) not in above]:
        yield from (*items, "")


def _extended(name: str) -> str:
    """Return the first engine whose parameters and presets this one has, too; itself where no other is before it."""
    engine = ENGINES[name]
    return next(
        each.name
        for each in ENGINES.values()
        if each.presets == engine.presets and [*each.parameters] == [*engine.parameters][: len(each.parameters)]
    )


def _row(name: str, field: FieldInfo) -> SettingReference:
    default = field.get_default(call_default_factory=True, validated_data={})
    meaning = _text(field)
    return SettingReference(name, _written(default), f"{meaning} {_allowed(field, meaning)}".rstrip())


def _text(field: FieldInfo) -> str:
    """Return the text of a field as Markdown, in one line as a row of a table needs it."""
    return " ".join((field.description or "").split()).replace("``", "`")


def _parameter(parameter: Parameter) -> SettingReference:
    meaning = parameter.meaning[0].upper() + parameter.meaning[1:]
    if parameter.choices:
        allowed = _one_of(parameter.choices, meaning)
    else:
        allowed = _range(parameter.low, parameter.high, parameter.open_low, parameter.open_high)
    if parameter.optional and parameter.default is not None:
        allowed = f"{allowed.removesuffix('.')}, or none."
    meaning = f"{meaning}. {allowed}".rstrip()
    return SettingReference(f"engine.{parameter.name}", _written(parameter.default), meaning)


def _allowed(field: FieldInfo, meaning: str) -> str:
    """Return the range of a setting in words, or its choices."""
    if choices := _choices(field.annotation):
        return _one_of([str(choice) for choice in choices], meaning)
    found = {name: getattr(bound, name) for bound in field.metadata for name in BOUNDS if hasattr(bound, name)}
    low, high = found.get("gt", found.get("ge")), found.get("lt", found.get("le"))
    return _range(low, high, "gt" in found, "lt" in found)


def _one_of(choices: Sequence[str], meaning: str) -> str:
    """Return a sentence with the choices, or nothing where the meaning of a setting names each of them."""
    known = set(re.findall(r"[\w-]+", meaning))
    return "" if known.issuperset(choices) else f"One of {', '.join(choices)}."


def _range(low: float | None, high: float | None, open_low: bool, open_high: bool) -> str:
    """Return a range in words, without bounds that no value comes near; nothing for shares, nor for counts from 1."""
    if low is not None and high is not None and low >= 0 and high <= 1:
        return ""
    low = None if low is None or 0 < low <= 1 / HUGE or low <= -HUGE else low
    high = None if high is None or high >= HUGE else high
    if low is None:
        return "" if high is None else f"{'Below' if open_high else 'To'} {_number(high)}."
    if high is None:
        return f"From {_number(low)}." if low > 1 else ""
    if low >= 0 and not (open_low or open_high):
        return f"{_number(low)}-{_number(high)}."
    return f"{'Above ' * open_low}{_number(low)} to {'below ' * open_high}{_number(high)}."


def _choices(annotation: Any) -> Sequence[Any]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


def _number(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"


def _item(row: SettingReference) -> str:
    """Return a setting as a line of a list; one with a default as a file has it."""
    if row.default in ("required", "none"):
        return f"- `{row.name}`{' (required)' * (row.default == 'required')}: {row.meaning}"
    return f"- `{row.name} = {row.default}`: {row.meaning}"


def _written(default: Any) -> str:
    """Return a default as the settings file has it."""
    if default is PydanticUndefined:
        return "required"
    return "none" if default is None else written(default)
