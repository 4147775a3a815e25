"""Parameters of a command that are made from options, such as the settings of a deployment."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, TypeVar

import typer

T = TypeVar("T")

CommandApp: Final = partial(typer.Typer, rich_markup_mode=None, add_completion=False)
"""Makes the ``app`` of a command's module."""


@dataclass(frozen=True, slots=True)
class Depends:
    """Annotates a parameter with the function that makes its value; the function's parameters are the options."""

    make: Callable[..., Any]


def injected(command: Callable[..., T]) -> Callable[..., T]:
    """Return a command with the options of the functions of `Depends` in the places of the values they make."""
    makers: dict[str, Callable[..., Any]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        own = [parameter]
        for mark in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(mark, Depends):
                makers[parameter.name] = mark.make
                own = [*inspect.signature(mark.make).parameters.values()]
        options += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in own]

    @wraps(command)
    def run(**given: Any) -> T:
        for name, make in makers.items():
            given[name] = make(**{option: given.pop(option) for option in inspect.signature(make).parameters})
        return command(**given)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run
