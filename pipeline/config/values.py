"""Types of settings, which also read the texts of environment and command line: lists, tables, numbers, none."""

import json
import re
from contextlib import suppress
from datetime import datetime
from math import inf, isfinite
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator
from resonance.engine.parameters import Parameter
from resonance.pipeline.exact_json import Digits
from resonance.pipeline.json_paths import WHOLE, parse_path
from resonance.pipeline.memory_budget import LEAST
from resonance.pipeline.timestamps import canonical
from resonance.schemas import AlertRule

KAFKA_PORT, PORTS = 9092, range(1, 65_536)
TOPIC_CHARACTERS = 249
_SERVER = re.compile(r"""(\[[0-9A-Fa-f:.]+\]|[^][\s:/@;=<>"']+)(?::([0-9]{1,5}))?""")


def _list(value: Any) -> Any:
    """Read ``a,b`` or ``["a", "b"]``; one name is a list of one."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            return _json(text, '["a", "b"]')
        return [part.strip() for part in text.split(",") if part.strip()]
    return value


def _list_or_text(value: Any) -> Any:
    """Read like `_list`, but keep one name without brackets as text."""
    is_list = not isinstance(value, str) or value.strip().startswith("[") or "," in value
    found = _list(value) if is_list else value
    if isinstance(found, str | list | tuple) and all(isinstance(each, str) for each in found):
        return found
    raise ValueError("must be a path, or a list of paths")


def _table(value: Any) -> Any:
    """Read ``{"name": ...}`` as JSON."""
    return _json(value, '{"name": ...}') if isinstance(value, str) else value


def _json(text: str, example: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"must be JSON, such as {example} ({error})") from error


def _optional(value: Any) -> Any:
    """Read ``none`` and empty text as None, for which TOML and the environment have no notation."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none") else value


def _no_boolean(value: Any) -> Any:
    # pydantic would accept true as 1.
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _path(text: str) -> str:
    parse_path(text)
    return text


def _records(text: str) -> str:
    return text if text == WHOLE else _path(text)


def _paths(texts: tuple[str, ...]) -> tuple[str, ...]:
    return _distinct("path", tuple(map(_path, texts)))


def _topic(name: str) -> str:
    if not re.fullmatch(rf"[A-Za-z0-9._-]{{1,{TOPIC_CHARACTERS}}}", name) or name in (".", ".."):
        raise ValueError(f"{name!r} is no topic name: up to {TOPIC_CHARACTERS} of the characters A-Z a-z 0-9 . _ -")
    return name


def _topic_pattern(text: str) -> str:
    if text.count("{name}") != 1 or text.count("{kind}") != 1:
        raise ValueError("must have {name} and {kind}, each once, as {name}.{kind} has")
    _topic(text.replace("{name}", "n").replace("{kind}", "k"))
    return text


def _topics(names: tuple[str, ...]) -> tuple[str, ...]:
    return _distinct("topic", tuple(map(_topic, names)))


def _servers(text: str) -> str:
    """Read ``host:port, host:port`` as both client libraries do: without blanks, repetitions and empty parts."""
    servers = list(filter(None, map(str.strip, text.split(","))))
    plain = [server.rpartition("://")[2] for server in servers]
    found = list(filter(None, map(_SERVER.fullmatch, plain)))
    if not servers or len(found) < len(plain) or any(int(each[2] or KAFKA_PORT) not in PORTS for each in found):
        raise ValueError(
            "must be host:port, several with commas between them, an IPv6 address in brackets, as [::1]:9092"
        )
    if plain != servers:
        raise ValueError(
            f"must be written as {','.join(plain)}; the protocol before :// belongs in "
            "broker.librdkafka.security.protocol"
        )
    return ",".join(dict.fromkeys(f"{each[1]}:{int(each[2] or KAFKA_PORT)}" for each in found))


def _distinct(what: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(texts)) != len(texts):
        raise ValueError(f"the same {what} stands there twice")
    return texts


def _path_or_paths(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return _path(value)
    if not value:
        raise ValueError("an empty list: name at least one feature")
    return _paths(value)


def _category_texts(value: Any) -> Any:
    """Return the values of categories as text, the way the input mapping writes them: true, 404, DE."""
    table = _table(value)
    if not isinstance(table, dict):
        return table
    texts = {}
    for name, values in table.items():
        listed = _list(values)
        if not isinstance(listed, (list, tuple)):
            raise ValueError(f"{name} has {listed!r}: must be a list of the values that it can have")
        texts[name] = tuple(map(category_text, listed))
    return texts


def _range_pairs(value: Any) -> Any:
    """Read like `_table`, and require pairs as values."""
    table = _table(value)
    if isinstance(table, dict):
        for name, pair in table.items():
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise ValueError(f"{name} has {pair!r}: must be [value that becomes 0, value that becomes 1]")
    return table


def category_text(value: Any) -> str:
    """Return a category's value as text; raise `ValueError` unless it is text, a boolean or an integer."""
    if isinstance(value, str) and (not isinstance(value, Digits) or value.removeprefix("-").isdigit()):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise ValueError("a category's value is text, an integer, true or false")


def _moment(value: Any) -> str:
    """Read RFC 3339 text, milliseconds since 1970, or a TOML date and time with an offset."""
    value = _no_boolean(value)
    if isinstance(value, str) and value.strip().lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no offset from UTC: write it as 2026-01-31T12:00:00Z")
        value = value.isoformat()
    if not isinstance(value, str | int | float):
        raise ValueError("must be a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970")
    return canonical(value.strip() if isinstance(value, str) else value)


def _start(value: Any) -> str:
    if isinstance(value, str) and value.strip().lower() in ("earliest", "latest"):
        return value.strip().lower()
    try:
        return _moment(value)
    except ValueError as error:
        raise ValueError(f"must be earliest, latest or a time ({error})") from None


def _missing(value: Any) -> Any:
    if isinstance(value, str) and value.strip() in ("reject", "mean"):
        return value.strip()
    with suppress(ValueError, TypeError, OverflowError):
        if isfinite(found := float(_no_boolean(value))):
            return found
    raise ValueError("must be reject, mean or a number")


def _auto(kind: type[int] | type[float], low: float, high: float, allowed: str) -> BeforeValidator:
    """Read ``auto``, or a number within bounds."""

    def read(value: Any) -> Any:
        if isinstance(value, str) and value.strip() == "auto":
            return "auto"
        with suppress(ValueError, TypeError, OverflowError):
            if low <= (found := kind(_no_boolean(value))) <= high and found == float(value):
                return found
        raise ValueError(f"must be auto, or {allowed}")

    return BeforeValidator(read)


def _robust(value: Any) -> Any:
    text = value.strip().lower() if isinstance(value, str) else value
    found = {"auto": "auto", "true": True, "false": False, True: True, False: False}.get(text)
    if found is None:
        raise ValueError("must be auto, true or false")
    return found


def parameter_value(value: Any, parameter: Parameter | None) -> Any:
    """Return the value of an engine's parameter; text of the environment or the command line is read as its kind."""
    if parameter is None or not isinstance(value, str):
        return value
    if parameter.optional and value.strip().lower() == "none":
        return None
    if parameter.kind is bool:
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    if parameter.kind in (int, float):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_list)]
AlertRules = Annotated[tuple[AlertRule, ...], BeforeValidator(_list)]
Paths = Annotated[tuple[str, ...], BeforeValidator(_list), AfterValidator(_paths)]
FeaturePaths = Annotated[str | tuple[str, ...], BeforeValidator(_list_or_text), AfterValidator(_path_or_paths)]
TopicNames = Annotated[tuple[str, ...], BeforeValidator(_list), AfterValidator(_topics)]
Servers = Annotated[str, AfterValidator(_servers)]
TopicPattern = Annotated[str, AfterValidator(_topic_pattern)]
OptionalTopic = Annotated[Annotated[str, AfterValidator(_topic)] | None, BeforeValidator(_optional)]
OptionalPath = Annotated[Annotated[str, AfterValidator(_path)] | None, BeforeValidator(_optional)]
OptionalRecords = Annotated[Annotated[str, AfterValidator(_records)] | None, BeforeValidator(_optional)]
OptionalCount = Annotated[int | None, BeforeValidator(_optional), BeforeValidator(_no_boolean)]
OptionalText = Annotated[str | None, BeforeValidator(_optional)]
Categories = Annotated[dict[str, tuple[str, ...]], BeforeValidator(_category_texts)]
Ranges = Annotated[dict[str, tuple[float, float]], BeforeValidator(_range_pairs)]
Project = Annotated[int | Literal["auto"], _auto(int, 0, 64, "an integer from 0 to 64")]
Robust = Annotated[bool | Literal["auto"], BeforeValidator(_robust)]
Processes = Annotated[int | Literal["auto"], _auto(int, 1, 1_000, "an integer from 1 to 1,000")]
Memory = Annotated[
    int | Literal["auto"],
    _auto(int, LEAST, inf, f"a number of bytes, at least {LEAST}, of which the program takes most"),
]
Rarity = Annotated[float | Literal["auto"], _auto(float, 100.0, 1e15, "a number from 100 to 1e15")]
Missing = Annotated[float | str, BeforeValidator(_missing)]
Count = Annotated[int, BeforeValidator(_no_boolean)]
Seconds = Annotated[float, BeforeValidator(_no_boolean)]
Start = Annotated[str, BeforeValidator(_start)]
