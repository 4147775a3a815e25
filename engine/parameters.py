"""Parameters, declared once with their ranges and checked once, with one wording of errors."""

import difflib
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
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
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ParameterError(name, given[name], f"one of the parameters {', '.join(names)}{hint}")
    return {p.name: p.check(given.get(p.name, p.default)) for p in declared}
