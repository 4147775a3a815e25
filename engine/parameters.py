"""Parameters, declared once with their ranges and checked once, with one wording of errors."""

import difflib
import inspect
import keyword
import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from resonance.engine.errors import ParameterError

MAX = 10**9
"""Bound of integers that need none of their own: sums of them stay far from the end of 64 bits."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an engine.

    Attributes
    ----------
    name : str
        As the user writes it; the Python keyword gets an underscore behind it where the name is reserved.
    kind : type
        ``int``, ``float``, ``str`` or ``bool``.
    default : object
        Value when nothing is given; None is allowed as a value only where it is the default or `optional`.
    meaning : str
        One sentence for the documentation.
    low, high : float, optional
        Closed bounds.
    open_low, open_high : bool
        The bound itself is excluded.
    choices : sequence of str, optional
        Allowed values of a ``str``.
    optional : bool
        None is allowed and means "no limit".
    """

    name: str
    kind: type
    default: Any
    meaning: str
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False
    choices: Sequence[str] = ()
    optional: bool = False

    @property
    def allowed(self) -> str:
        """The range in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices) + (", or none" if self.optional else "")
        if self.kind is bool:
            return "true or false"
        text = "an integer" if self.kind is int else "a number"
        if self.low is not None:
            text += f" {'above' if self.open_low else 'of at least'} {self.low:,}"
        if self.high is not None:
            text += (
                f"{' and' if self.low is not None else ''} {'below' if self.open_high else 'of at most'} {self.high:,}"
            )
        return text + (", or none" if self.optional else "")

    def check(self, value: Any) -> Any:
        """Return `value` in the parameter's own type, or raise `ParameterError`."""
        if value is None and self.optional:
            return None
        if self.kind is str:
            if value not in self.choices:
                raise ParameterError(self.name, value, self.allowed)
            return value
        if self.kind is bool:
            if not isinstance(value, bool):
                raise ParameterError(self.name, value, self.allowed)
            return value
        # The abstract class alone would take longer than all else here.
        is_real = isinstance(value, (int, float, numbers.Real))
        if isinstance(value, bool) or not is_real or not math.isfinite(value):
            raise ParameterError(self.name, value, self.allowed)
        number = self.kind(value)
        if number != value:
            raise ParameterError(self.name, value, self.allowed)
        below = self.low is not None and (number <= self.low if self.open_low else number < self.low)
        above = self.high is not None and (number >= self.high if self.open_high else number > self.high)
        if below or above:
            raise ParameterError(self.name, value, self.allowed)
        return number


def check_parameters(declared: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every declared parameter with its checked value.

    Parameters
    ----------
    declared : sequence of Parameter
        What the engine has.
    given : mapping of str to object
        What the user wrote, by name.

    Raises
    ------
    ParameterError
        For a name that does not exist (the nearest one is offered) or a value outside its range.
    """
    names = [parameter.name for parameter in declared]
    for name in given:
        if name not in names:
            raise ParameterError(name, given[name], f"one of the parameters {listed(names, name)}")
    return {p.name: p.check(given.get(p.name, p.default)) for p in declared}


def listed(known: Sequence[str], name: str) -> str:
    """Return the names that there are, and which of them is nearest to one that is not."""
    near = difflib.get_close_matches(name, known, n=1)
    return ", ".join(known) + (f" (did you mean {near[0]}?)" if near else "")


Rules = TypeVar("Rules")


def filled(rules: Callable[..., Rules], given: Mapping[str, Any], **own: Any) -> Rules:
    """Return a NamedTuple with the parameters that its fields are named after, and with `own`."""
    return rules(**{name: given[name] for name in rules.__annotations__ if name in given and name not in own}, **own)


def _documented(doc: str, declared: Sequence[Parameter]) -> str:
    """Return the docstring of a class with a section of the arguments that are declared, before its notes."""
    each = [f"{_argument(p.name)} : {p.allowed}, default {p.default!r}\n    {p.meaning}" for p in declared]
    text = "\n".join(["Parameters", "----------", *each])
    head, *rest = re.split(r"\n(?=(?:Attributes|Notes|References|Examples)\n-)", inspect.cleandoc(doc), maxsplit=1)
    return "\n".join([head.rstrip(), "", text, *(f"\n{part}" for part in rest)])


def _argument(name: str) -> str:
    """Return the name of the constructor's argument for a parameter."""
    return f"{name}_" if keyword.iskeyword(name) else name


class Parametrised:
    """What has declared parameters: they are the arguments of its constructor, and attributes of what it makes."""

    parameters: ClassVar[tuple[Parameter, ...]]
    """Every parameter with its default and its range."""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    """Named sets of parameters, such as ``paper``."""
    _given: dict[str, Any]
    """Every parameter with its checked value, by its name in settings."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if (doc := cls.__dict__.get("__doc__")) and hasattr(cls, "parameters") and "\n    Parameters\n" not in doc:
            cls.__doc__ = _documented(doc, cls.parameters)
        kind = inspect.Parameter.KEYWORD_ONLY
        arguments = [(_argument(each.name), each.default) for each in getattr(cls, "parameters", ())]
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, kind, default=default) for name, default in arguments]
        )

    def __init__(self, **given: Any) -> None:
        own = {_argument(each.name): each.name for each in self.parameters}
        self._given = check_parameters(self.parameters, {own.get(name, name): given[name] for name in given})

    @classmethod
    def make(cls, parameters: Mapping[str, Any]) -> Self:
        """Return a new one from parameters by the names that settings use; an unknown one is a `ParameterError`."""
        return cls(**check_parameters(cls.parameters, parameters))

    def has(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether it was made with these parameters, by the names that settings use."""
        return self._given == check_parameters(self.parameters, parameters)

    def __repr__(self) -> str:
        """Return the call that makes such a one: its name with the parameters that are not the defaults."""
        defaults = {each.name: each.default for each in self.parameters}
        changed = {name: value for name, value in self._given.items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{_argument(name)}={value!r}' for name, value in changed.items())})"

    if not TYPE_CHECKING:  # A checker would take any name for a parameter.

        def __getattr__(self, name: str) -> Any:
            """Return a parameter by the name of its argument; what it is stays as it was made."""
            given = self.__dict__.get("_given", {})
            for own, value in given.items():
                if _argument(own) == name:
                    return value
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
