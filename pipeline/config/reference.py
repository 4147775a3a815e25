"""The settings reference of the documentation, made from the text where each setting is defined."""

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

Every setting with its default; `resonance settings --reference` prints this page. There are three ways to set one; an
earlier row overrides a later one:

| where | how |
|---|---|
| command line | `--input.topics a,b`, or `--set input.topics=a,b` |
| environment | `RESONANCE_INPUT__TOPICS=a,b`: capitals, two underscores for the dot |
| file (`resonance.toml`, or `--config FILE`) | `topics = ["a", "b"]` under `[input]` |

Unknown names are refused everywhere. `resonance settings` prints the effective values. On the command line and in the
environment, lists are `a,b` or JSON, tables are JSON, and `none` unsets a value.
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
        lines += [*_heading(section), "| setting | default | meaning |", "|---|---|---|"]
        lines += [f"| `{row.name}` | {_code(row.default)} | {row.meaning} |" for row in rows]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _heading(section: str) -> Iterator[str]:
    name, _, engine = section.partition(": ")
    if engine:
        yield from (f"### With the engine `{engine}`", "")
        for preset, values in ENGINES[engine].presets.items():
            listed = ", ".join(f"`{key} = {_written(value)}`" for key, value in values.items())
            yield from (f"The preset `{preset}`: {listed}.", "")
    elif name:
        yield from (f"## {name}", "", str(Settings.model_fields[name].description), "")
    else:
        yield from ("## Outside the sections", "")


def _row(name: str, field: FieldInfo) -> SettingReference:
    default = field.get_default(call_default_factory=True, validated_data={})
    # A row of a Markdown table must be one line.
    meaning = " ".join((field.description or "").split()).replace("``", "`")
    return SettingReference(name, _written(default), f"{meaning} {_allowed(field, meaning)}".rstrip())


def _parameter(parameter: Parameter) -> SettingReference:
    meaning = parameter.meaning[0].upper() + parameter.meaning[1:]
    allowed = parameter.allowed[0].upper() + parameter.allowed[1:]
    return SettingReference(f"engine.{parameter.name}", _written(parameter.default), f"{meaning}. {allowed}.")


def _allowed(field: FieldInfo, meaning: str) -> str:
    """Return the range of a setting in words, or its choices where its meaning does not name them."""
    choices = [str(choice) for choice in _choices(field.annotation)]
    if choices:
        return "" if all(f"`{choice}`" in meaning for choice in choices) else f"One of {', '.join(choices)}."
    found = {name: getattr(bound, name) for bound in field.metadata for name in BOUNDS if hasattr(bound, name)}
    text = ", ".join(f"{word} {_number(found[name])}" for name, word in BOUNDS.items() if name in found)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _choices(annotation: Any) -> Sequence[Any]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


def _number(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"


def _code(default: str) -> str:
    return default if default in ("required", "none") else f"`{default}`"


def _written(default: Any) -> str:
    """Return a default as the settings file has it."""
    if default is PydanticUndefined:
        return "required"
    return "none" if default is None else written(default)
