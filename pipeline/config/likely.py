"""Which setting or option a user may have meant by a name that does not exist."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

SYNONYMS: Final[Mapping[str, str]] = {
    "bootstrap": "broker",
    "server": "broker",
    "kafka": "broker",
    "conf": "config",
    "cfg": "config",
    "setting": "config",
    "group": "name",
    "input": "file",
    "source": "file",
}
"""Words of other tools for what our options and arguments call otherwise."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "broker.((?:security|sasl|https|ssl)_.*)": (
        "it is librdkafka's own: broker.librdkafka.{dotted}, in the environment "
        "RESONANCE_BROKER__LIBRDKAFKA__{upper} (docs/security.md)"
    ),
    "schema_registry.(basic_auth)_.*": (
        "it is schema_registry.client.basic.auth.user.info = user:password, in the environment "
        "RESONANCE_SCHEMA_REGISTRY__CLIENT__BASIC_AUTH_USER_INFO"
    ),
    "schema_registry.(ssl_.*)": (
        "it is confluent-kafka's own: schema_registry.client.{dotted}, in the environment "
        "RESONANCE_SCHEMA_REGISTRY__CLIENT__{upper}"
    ),
    "output.(compression)": "it is librdkafka's own: broker.librdkafka.compression.type",
    "topics.(assignments|cluster_events|drift_events|alerts|dead_letters|clusters|snapshots|archive|routes|names)": (
        "all topics are named by topics.pattern, by default {{name}}.{{kind}}"
    ),
}
"""Where to set what people look for elsewhere, by a pattern of the name, whose group it may have."""

MOST: Final = 3
"""Names that are offered."""

CUTOFF: Final = 0.8
"""Least likeness of a misspelt name."""


def sharing_words(name: str, known: Iterable[str]) -> list[str]:
    """Return the options that have the words of a name, or begin or end with them; or with its only character."""
    every, wanted = list(known), _words(name)
    if len(name.lstrip("-")) == 1:
        return [option for option in every if option.lstrip("-").startswith(name.lstrip("-"))][:MOST]
    distances = {
        option: len({*wanted} ^ {*words})
        for option in every
        if (words := _words(option))
        and ({*words} <= {*wanted} or wanted in (words[: len(wanted)], words[-len(wanted) :]))
    }
    return [option for option, distance in distances.items() if distance == min(distances.values())][:MOST]


def spelt_alike(name: str, known: Iterable[str]) -> list[str]:
    """Return the options that are spelt almost so."""
    bare = {option.lstrip("-"): option for option in known}
    return [bare[near] for near in get_close_matches(name.lstrip("-"), bare, n=MOST, cutoff=CUTOFF)]


def settings_called(name: str, known: Iterable[str]) -> list[str]:
    """Return the dotted settings that have a name in any section; that of a section with a ``name`` is its name."""
    wanted = _plain(name)
    return [each for each in known if _end(each) == wanted or each == f"{wanted}.name"][:MOST]


def settings_like(name: str, known: Iterable[str]) -> list[str]:
    """Return the first settings of the section that has a name, else those that are spelt almost so."""
    every, wanted = list(known), _plain(name)
    own = [each for each in every if _plain(each.partition(".")[0]) == wanted and "." in each]
    return own[:MOST] or _almost(name, every, CUTOFF)


def settings_meant(setting: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what a dotted setting that does not exist was meant for: of its section, else elsewhere.

    `known` has the names in each section, and under ``""`` the sections and the settings outside them.
    """
    # In the environment one underscore may stand where two are needed.
    setting = re.sub(rf"^({'|'.join(filter(None, known))})_", r"\1.", setting)
    section, _, name = setting.rpartition(".")
    every = [f"{part}.{each}".lstrip(".") for part, names in known.items() for each in names]
    if section in known and section:
        found = _almost(name, [each for each in every if each.startswith(f"{section}.")], 0.6)
    else:
        found = get_close_matches(setting, every, n=1)
    return found or settings_called(name, every) or settings_like(name, every)


def _almost(name: str, settings: Sequence[str], cutoff: float) -> list[str]:
    """Return the settings whose name is almost so, else those whose first or last words are."""
    near = get_close_matches(_plain(name), {part for each in settings for part in _parts(each)}, 1, cutoff)
    whole = [each for each in settings if _end(each) in near]
    return (whole or [each for each in settings if _parts(each).intersection(near)])[:MOST]


def _parts(setting: str) -> set[str]:
    words = _end(setting).split("_")
    return {_plain("_".join(part)) for at in range(len(words)) for part in (words[at:], words[: at + 1])}


def _end(setting: str) -> str:
    return _plain(setting.rpartition(".")[2])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").removesuffix("s")


def _words(name: str) -> list[str]:
    """Return the words of a name without the ``s`` of a plural, as our options call them, each once."""
    found = (word.removesuffix("s") for word in re.split(r"[^a-z0-9]+", name.lower()) if word)
    return list(dict.fromkeys(SYNONYMS.get(word, word) for word in found))


def set_elsewhere(setting: str) -> str | None:
    """Return where to set what a setting that does not exist asks for; None where that is not known."""
    for pattern, where in ELSEWHERE.items():
        if found := re.fullmatch(pattern, setting):
            return where.format(dotted=found[1].replace("_", "."), upper=found[1].upper())
    return None
