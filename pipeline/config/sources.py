"""Read the settings file, join the sources of settings, and refuse unknown environment variables."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resonance.pipeline.config.likely import settings_meant
from resonance.pipeline.config.messages import variable
from resonance.pipeline.errors import ConfigurationError, offered

DEFAULT_FILE = Path("resonance.toml")
PREFIX = "RESONANCE_"
OTHER_VARIABLES = frozenset({"FAULT_POINT", "KILL_TEST", "KILL_SEED"})
"""Names behind the prefix that belong to the tests: where a worker dies, and how long the kill test runs."""


def read_file(file: Path | None) -> tuple[str, dict[str, Any]]:
    """Return name and content of the settings file, by default ``resonance.toml`` of the working folder.

    Both are empty where no file is named and the default does not exist. Raises `ConfigurationError`, with what to do,
    for a file that cannot be read or is not TOML.
    """
    path = file or DEFAULT_FILE
    if file is None and not path.exists():
        return "", {}
    try:
        data = path.read_bytes()
        # Editors of Windows begin UTF-8 with a mark of its own; no character of TOML is or has a zero byte.
        if b"\0" in data:
            raise ConfigurationError(f"{path}: not UTF-8 but UTF-16, or no text at all; save the file as UTF-8")
        return str(path), tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"{path}: the settings cannot be read ({error.strerror}); name another file, or leave --config out to use "
            "environment and command line alone"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(_not_toml(path, error)) from None


def _not_toml(path: Path, error: Exception) -> str:
    """Return the message for a file that cannot be parsed, with the line where it is known."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
    if found:
        return f"{path}:{found[2]}: not TOML: {found[1][0].lower()}{found[1][1:]}, at column {found[3]}; correct it"
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        return f"{path}:{line}: not TOML: a character that is not UTF-8; write the file in UTF-8"
    return f"{path}: not TOML: {error}; something is left open at its end"


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with dotted names as tables; None counts as not given.

    Raises `ConfigurationError`, with what to write instead, where one name is given as a value and as a table.
    """
    tables: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        section, dot, key = name.partition(".")
        given: Any = {key: value} if dot else value
        if section not in tables:
            tables[section] = dict(given) if isinstance(given, Mapping) else given
        elif isinstance(given, Mapping) and isinstance(tables[section], dict):
            tables[section].update(given)
        else:
            raise ConfigurationError(
                f"{section} is given as one value, and {name if dot else 'its settings'} beside it; a section's "
                f"settings are given one by one, as --set {section}.<name>=<value>"
            )
    return tables


def merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Join sources section by section; later ones win.

    A section that is no table is not replaced by a later table, so that it is refused instead of ignored.
    """
    joined: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            if isinstance(value, Mapping) and isinstance(joined.get(name), Mapping):
                joined[name] = {**joined[name], **value}
            elif name not in joined or not isinstance(value, Mapping):
                joined[name] = value
    return joined


def with_sparse_defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return unchecked values, with the defaults for sparse records added where ``input.sparse`` is set."""
    given, prepare = values.get("input"), values.get("prepare", {})
    path = given.get("sparse") if isinstance(given, Mapping) else None
    # In the environment, "none" and empty text stand for no value.
    if path is None or str(path).strip().lower() in ("", "none") or not isinstance(prepare, Mapping):
        return values
    return {**values, "prepare": {"scale": "none", **prepare}}


def refuse_unknown_variables(known: Mapping[str, Sequence[str]]) -> None:
    """Refuse environment variables with the prefix that name no section and no setting outside sections.

    `known` has the names in each section, and under ``""`` the sections and the settings outside them. Unknown names
    inside a section are found later, with those of the file.
    """
    for name, value in os.environ.items():
        if not name.upper().startswith(PREFIX):
            continue
        given = name.upper().removeprefix(PREFIX)
        section = given.partition("__")[0].lower()
        if section in known[""] or given in OTHER_VARIABLES or _of_kubernetes(given, value):
            continue
        meant = offered(map(variable, settings_meant(given.lower().replace("__", "."), known)))
        raise ConfigurationError(
            f"{name}: there is no such setting{meant}; {', '.join(known[''])} can stand behind {PREFIX}, and a "
            f"section's settings behind two underscores ({PREFIX}INPUT__TOPICS)"
        )


def _of_kubernetes(name: str, value: str) -> bool:
    """Return whether Kubernetes set the variable, for a service called ``resonance`` or ``resonance-...``."""
    service = r"(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
    return bool(re.fullmatch(service, name) or (re.fullmatch(r"(.+_)?PORT", name) and "://" in value))
