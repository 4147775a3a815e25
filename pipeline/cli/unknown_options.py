"""Unknown options: the message offers what was meant, also where that is a setting or stands elsewhere."""

from collections.abc import Callable, Iterable
from typing import Any

from resonance.pipeline.cli.options import OPTIONS
from resonance.pipeline.config import likely, reference


def explanation(name: str, context: Any) -> str:
    """Return what to write instead, to stand behind the message; empty where nothing is like the option."""
    command, path = context.command, context.command_path
    if found := _meant(name, command):
        return f" (did you mean {' or '.join(found)}?)"
    if argument := _argument(name, command):
        return f"; write it without an option: {path} {argument}"
    if found := _setting_meant(name, command) or likely.spelt_alike(name, _options(command)):
        return f" (did you mean {' or '.join(found)}?)"
    if found := _setting_meant(name, command, likely.settings_like):
        return f" (did you mean {' or '.join(found)}?)"
    for word in ("worker",) if context.parent is None else getattr(command, "commands", ()):
        if found := _meant(name, command.get_command(context, word)):
            return f"; options stand behind the command: {path} {word} {found[0]}"
    if not hasattr(command, "commands") and "--set" not in _options(command):
        root = context.find_root()
        worker = root.command.get_command(root, "worker")
        if _meant(name, worker) or _setting_meant(name, worker):
            return f"; {path} reads no settings of a deployment"
    return ""


def _meant(name: str, command: Any) -> list[str]:
    """Return the options of a command that share the words of a name, with the setting that they stand for."""
    found = likely.sharing_words(name, _options(command))
    if "--set" in _options(command):
        settings = {f"--{option}": f"--{setting}" for option, setting in OPTIONS.items()}
        found += [settings[option] for option in found or likely.sharing_words(name, settings) if option in settings]
    return found


def _argument(name: str, command: Any) -> str:
    arguments = {each.name: each for each in command.params if each.param_type_name == "argument"}
    near = likely.sharing_words(name, arguments)
    return (arguments[near[0]].metavar or near[0].upper()) if near else ""


def _setting_meant(
    name: str, command: Any, search: Callable[[str, Iterable[str]], list[str]] = likely.settings_called
) -> list[str]:
    if "--set" not in _options(command):
        return []
    known = dict.fromkeys(row.name for rows in reference.reference().values() for row in rows)
    found = search(name.lstrip("-"), known)
    return [f"--{setting}" if "." in setting else f"--set {setting}=..." for setting in found]


def _options(command: Any) -> list[str]:
    return [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
