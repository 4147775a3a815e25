"""The settings reference of the documentation, made from the text where each setting is defined."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from resonance.engine import ENGINES
from resonance.engine.parameters import MAX, Parameter
from resonance.pipeline.config.file import written
from resonance.pipeline.config.messages import BOUNDS
from resonance.pipeline.config.sections import EngineSection, Section
from resonance.pipeline.config.settings import Settings

INTRODUCTION = """\
# Settings

`resonance settings --reference` prints this page, `resonance settings` the effective values. A setting comes from

| where, the first overriding the others | how |
|---|---|
| command line | `--input.topics a,b`, or `--set input.topics=a,b` |
| environment | `RESONANCE_INPUT__TOPICS=a,b` |
| file (`resonance.toml`, or `--config FILE`) | `topics = ["a", "b"]` under `[input]` |

On the command line and in the environment lists are `a,b` or JSON, tables are JSON, and `none` unsets a value. Each
setting stands here with its default.
"""


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
        own = rows
        name, _, engine = section.partition(": ")
        if engine:
            lines += [f"### With the engine `{engine}`", ""]
            model = _extended(engine)
            if model != engine:
                own = rows[len(ENGINES[model].parameters) :]
                lines += [f"As with `{model}`{', and:' if own else '.'}", ""]
            else:
                lines += _presets(engine)
        elif name:
            lines += [f"## {name}", "", _text(Settings.model_fields[name]), ""]
        else:
            lines += ["## Outside the sections", ""]
        if own:
            lines += [*map(_item, own), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _extended(name: str) -> str:
    """Return the first engine whose parameters and presets this one has, too; itself where no other is before it."""
    engine = ENGINES[name]
    return next(
        each.name
        for each in ENGINES.values()
        if each.presets == engine.presets and [*each.parameters] == [*engine.parameters][: len(each.parameters)]
    )


def _presets(engine: str) -> Iterator[str]:
    for preset, values in ENGINES[engine].presets.items():
        listed = ", ".join(f"`{key} = {_written(value)}`" for key, value in values.items())
        yield from (f"The preset `{preset}`: {listed}.", "")


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
    """Return a range in words, without bounds that no value comes near, and without a 0 below counts."""
    low = None if low is None or low <= -MAX else low
    high = None if high is None or high >= MAX else high
    above, below = "above " * open_low, "below " * open_high
    if low is not None and high is not None:
        text = f"{above}{_number(low)} to {below}{_number(high)}."
    elif low is not None and (low or open_low):
        text = f"{above or 'from '}{_number(low)}."
    else:
        text = "" if high is None else f"{below or 'to '}{_number(high)}."
    return text[:1].upper() + text[1:]


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
