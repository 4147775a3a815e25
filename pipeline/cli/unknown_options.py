"""Unknown options: the message offers what was meant, also where that is a setting or stands elsewhere."""

from collections.abc import Callable, Iterable
from typing import Any

from resonance.pipeline.cli.options import OPTIONS, SHARED_NAMES
from resonance.pipeline.config import likely
from resonance.pipeline.errors import offered


def explanation(name: str, context: Any) -> str:
    """Return what to write instead, to stand behind the message; empty where nothing is like the option."""
    command, path = context.command, context.command_path
    if found := _meant(name, command):
        return offered(found)
    if argument := _argument(name, command):
        return f"; write it without an option: {path} {argument}"
    alike = likely.spelt_alike(name, _options(command))
    return offered(_setting_meant(name) or alike or _setting_meant(name, likely.settings_like))


def _meant(name: str, command: Any) -> list[str]:
    """Return the options of a command that share the words of a name, with the setting that they stand for."""
    found = likely.sharing_words(name, _options(command))
    settings = {f"--{option}": f"--{setting}" for option, setting in OPTIONS.items()}
    return found + [settings[option] for option in found if option in settings]


def _argument(name: str, command: Any) -> str:
    arguments = {each.name: each for each in command.params if each.param_type_name == "argument"}
    near = likely.sharing_words(name, arguments)
    return (arguments[near[0]].metavar or near[0].upper()) if near else ""


def _setting_meant(name: str, search: Callable[[str, Iterable[str]], list[str]] = likely.settings_called) -> list[str]:
    from resonance.pipeline.config import reference

    known = dict.fromkeys(row.name for rows in reference.reference().values() for row in rows)
    found = search(name.lstrip("-"), known)
    return [f"--{setting}" if "." in setting else f"--set {setting}=..." for setting in found]


def _options(command: Any) -> list[str]:
    own = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    return list(dict.fromkeys([*own, *SHARED_NAMES]))
