"""Where settings come from: the file, the environment, the command line, and how they are joined."""

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resonance.pipeline.errors import ConfigurationError, nearest

DEFAULT_FILE = Path("resonance.toml")
PREFIX = "RESONANCE_"


def read_file(file: Path | None) -> tuple[str, dict[str, Any]]:
    """Return name and content of the settings file.

    Parameters
    ----------
    file : Path or None
        The file; None takes ``resonance.toml`` of the working folder, if there is one.

    Raises
    ------
    ConfigurationError
        It cannot be read, or is not TOML.
    """
    path = file or DEFAULT_FILE
    if file is None and not path.exists():
        return str(path), {}
    try:
        with path.open("rb") as stream:
            return str(path), tomllib.load(stream)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: the settings cannot be read ({error.strerror}); name another file, or leave --config out to use "
            "environment and command line alone"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from None


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with dotted names as tables; None counts as not given.

    Raises
    ------
    ConfigurationError
        A name stands for a value and for a table.
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
    """Join sources section by section; the later win.

    A section that is no table stays as it is, whatever comes later: it is refused then, and not left out in silence.
    """
    joined: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            if isinstance(value, Mapping) and isinstance(joined.get(name), Mapping):
                joined[name] = {**joined[name], **value}
            elif name not in joined or not isinstance(value, Mapping):
                joined[name] = value
    return joined


def refuse_unknown_variables(known: Sequence[str]) -> None:
    """Refuse environment variables that look like settings and are none.

    Unknown names inside a section are found later, with the file's. Other variables with the prefix must pass:
    Kubernetes sets RESONANCE_SERVICE_HOST, RESONANCE_PORT_6066_TCP and more for a service named "resonance".

    Parameters
    ----------
    known : sequence of str
        Names of the sections, and of the settings outside them.

    Raises
    ------
    ConfigurationError
        Naming the first such variable.
    """
    for name in os.environ:
        if not name.upper().startswith(PREFIX):
            continue
        section, separator, _ = name.upper().removeprefix(PREFIX).lower().partition("__")
        if section in known:
            continue
        if separator or difflib.get_close_matches(section, known, n=1, cutoff=0.8):
            raise ConfigurationError(
                f"{name}: there is no such setting{nearest(section, known)}; "
                f"the settings and sections are {', '.join(known)}"
            )
