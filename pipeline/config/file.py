"""Write settings as the TOML file that they can be read from."""

import re
from collections.abc import Mapping
from typing import Any

import orjson
from resonance.pipeline.config.messages import MASK


def as_toml(values: Mapping[str, Any], derived: Mapping[str, str] | None = None) -> str:
    """Return nested values as TOML; settings that are not set, and masked secrets, become comments.

    `derived` has the effective values of settings that are not set, by dotted name.
    """
    return "\n".join(_lines(values, "", derived or {})) + "\n"


def _lines(values: Mapping[str, Any], section: str, derived: Mapping[str, str]) -> list[str]:
    lines = [
        _line(_key(name), value, derived.get(f"{section}.{name}"))
        for name, value in values.items()
        if not isinstance(value, Mapping)
    ]
    if section and lines:
        lines = ["", f"[{section}]", *lines]
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += _lines(value, f"{section}.{_key(name)}" if section else _key(name), derived)
    return lines


def _line(key: str, value: Any, derived: str | None) -> str:
    if value is None:
        return f"# {key} is not set" if derived is None else f"# {key} = {written(derived)} (derived)"
    return f"# {key} is set, and not shown" if value == MASK else f"{key} = {written(value)}"


def _key(name: str) -> str:
    # A bare key with a dot would be a table, one with a space an error.
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else written(name)


def written(value: Any) -> str:
    """Return a value as the settings file has it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    # JSON text, numbers and booleans are valid TOML, except for one character that must be escaped.
    return orjson.dumps(value).decode().replace("\x7f", "\\u007f")
