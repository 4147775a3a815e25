"""Errors for unusable settings: setting, where it was given, value, what is allowed, what to do."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import SecretStr, ValidationError
from resonance.engine.errors import ParameterError
from resonance.pipeline.config.likely import set_elsewhere, settings_meant
from resonance.pipeline.errors import ConfigurationError, nearest, offered

MASK = "**********"
EXAMPLES = {"input.topics": "a,b"}
"""Example values of required settings, as the command line takes them."""
TABLES_OF_COLUMNS = ("prepare.categories", "prepare.ranges")
"""Settings that are a table with an entry for each of some columns."""
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""Words for pydantic's bounds of a value."""


def variable(setting: str) -> str:
    """Return the environment variable of a setting."""
    return "RESONANCE_" + "__".join(setting.split(".", 2)).replace(".", "_").upper()


@cache
def secrets() -> frozenset[str]:
    """Return the settings that hold a secret, or a table with some: by their type, so that none is forgotten."""
    from resonance.pipeline.config.fields import Fields  # noqa: PLC0415 - it imports this module

    def names(fields: Mapping[str, Any], section: str = "") -> Iterable[str]:
        for name, field in fields.items():
            if _holds(field.annotation, SecretStr):
                yield section + name
            yield from names(getattr(field.annotation, "model_fields", {}), f"{section}{name}.")

    return frozenset(names(Fields.model_fields))


def _holds(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(_holds(part, kind) for part in get_args(annotation))


def masked(words: Iterable[str]) -> list[str]:
    """Return the words of a command line without the secrets that ``--set name=value`` gives."""
    secret = re.compile(rf"((?:{'|'.join(map(re.escape, sorted(secrets())))})[^=]*)=.*", re.DOTALL)
    return [secret.sub(rf"\1={MASK}", word) for word in words]


class ValueOrigins:
    """Where each value was given, for the errors.

    `file_name` is empty where there is no file, and None where none was looked for.
    """

    def __init__(
        self,
        flags: Mapping[str, Any],
        environment: Mapping[str, Any],
        file: Mapping[str, Any],
        file_name: str | None,
    ) -> None:
        reason = f"{file_name} does not have it" if file_name else "there is no resonance.toml in this folder"
        # Why a setting is not there, in brackets; may be empty.
        self.missing = "" if file_name is None else f" ({reason})"
        self._sources = ((flags, "on the command line"), (environment, "in the environment"), (file, f"in {file_name}"))

    def of(self, location: Sequence[Any], *, table: bool = True) -> str:
        """Return where a setting was given, or empty text; without `table`, where it was given as no table."""
        for values, place in self._sources:
            current: Any = values
            for name in location:
                if not isinstance(current, Mapping) or name not in current:
                    break
                current = current[name]
            else:
                if not table and isinstance(current, Mapping):
                    continue
                if place == "in the environment":
                    return f" (from {variable('.'.join(map(str, location)))})"
                return f" ({place})"
        return ""


def configuration_error(
    setting: str, value: object, allowed: str, origin: str = "", remedy: str = ""
) -> ConfigurationError:
    """Return the error for one setting; `allowed` says what would be accepted, and `origin` is of `ValueOrigins.of`.

    A secret's value is not shown; `remedy` says what to do where `allowed` does not.
    """
    shown = MASK if setting in secrets() or isinstance(value, SecretStr) else _short(value)
    text = f"{setting} = {shown}{origin}: {allowed}"
    return ConfigurationError(f"{text}; {remedy}" if remedy else text)


def prepared_setting(error: ParameterError) -> str:
    """Return the setting that is to blame where a stream's records cannot be prepared for its engine."""
    if error.name == "features":
        return "input.features"
    return error.name if error.name.startswith("engine.") else f"prepare.{error.name}"


def from_validation(
    error: ValidationError, known: Mapping[str, Sequence[str]], origins: ValueOrigins
) -> ConfigurationError:
    """Return one error for everything that pydantic found, with a line for each setting.

    `known` has the names in each section, and under ``""`` the sections and the settings outside them.
    """
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        line = _sentence(problem, known, origins)
        if line not in lines:
            lines.append(line)
    return ConfigurationError(*"\n".join(lines).split("\n"))


def _sentence(problem: Any, known: Mapping[str, Sequence[str]], origins: ValueOrigins) -> str:
    # A location is section, setting, then inner places: an element of a list, a member of a union.
    location = [str(part) for part in problem["loc"]][:2]
    if location and location[0] not in known:
        location = location[:1]
    setting = ".".join(location)
    kind, given = problem["type"], problem["input"]
    if kind == "missing":
        return (
            f"{setting} is not set{origins.missing}: set it in the file, as {variable(setting)} in the "
            f"environment, or as --{setting} {EXAMPLES.get(setting, 'VALUE')} on the command line"
        )
    if kind == "extra_forbidden" and (where := set_elsewhere(setting)):
        return f"{setting}{origins.of(location)}: there is no such setting; {where}"
    if kind == "extra_forbidden":
        section = location[0] if len(location) > 1 else ""
        names = known.get(section, ())
        table, _, entry = location[-1].partition(".")
        if (whole := f"{section}.{table}") in TABLES_OF_COLUMNS and entry:
            pairs = f'{{"{entry}": {given if isinstance(given, str) else "..."}}}'
            return f"{setting}{origins.of(location)}: all columns together, as JSON: --set '{whole}={pairs}'"
        what = f"section [{section}]" if section else "settings"
        near = offered(settings_meant(setting, known))
        return (
            f"{setting}{origins.of(location)}: there is no such setting{near}; the {what} can have {', '.join(names)}"
        )
    if kind in ("model_type", "model_attributes_type"):
        # Without the value, which may be a whole section as text, with its passwords.
        return (
            f"{setting}{origins.of(location, table=False)}: must be a table of settings; give them one by one, "
            f"as {setting}.<name> in the file or {variable(setting)}__<NAME> in the environment"
        )
    first, *more = _allowed(problem).split("\n")
    words = re.findall(r"\w{3,}", " ".join([first, *more]).removeprefix("must be one of"))
    near = nearest(given, [word for word in words if word != given]) if isinstance(given, str) else ""
    return str(configuration_error(setting, given, "\n".join([first + near, *more]), origins.of(location)))


def _allowed(problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return "must be one of " + str(context["expected"]).replace("'", "").replace(" or ", ", ")
    for name, word in BOUNDS.items():
        if name in context:
            return f"must be {word} {context[name]:,g}"
    words = {
        "int_parsing": "must be an integer",
        "int_type": "must be an integer",
        "int_from_float": "must be an integer",
        "float_parsing": "must be a number",
        "float_type": "must be a number",
        "finite_number": "must be a finite number",
        "bool_parsing": "must be true or false",
        "bool_type": "must be true or false",
        "string_type": "must be text",
        "tuple_type": "must be a list",
        "dict_type": "must be a table",
        "string_too_short": "must not be empty",
        "too_short": "must not be empty",
        "string_pattern_mismatch": "must consist of the characters A-Z a-z 0-9 . _ -",
    }
    return words.get(kind, str(problem["msg"]))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


STREAM_CHOICES = (
    'stream = "partition": all records of a partition share one model',
    'stream = "key": the records of each key share one model (a key in two partitions is two streams)',
    'stream = "topic": all records of the topic share one model (through one more topic, the routes)',
    'stream = "field:<path>": the records that agree in a field share one model (through the routes as well)',
)


def stream_not_set(topics: Sequence[str], partitions: int) -> ConfigurationError:
    """Return the error, with the choices, for input topics of several partitions where `stream` is not set."""
    return ConfigurationError(
        f"stream is not set, and {', '.join(topics)} {'has' if len(topics) == 1 else 'have'} {partitions} partitions: "
        f"say which records share one model, in the file, as {variable('stream')} in the environment, or as --set "
        "stream=...",
        *(f"  {choice}" for choice in STREAM_CHOICES),
    )
