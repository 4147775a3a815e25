"""The parameters of a preparation: every one of them, checked once and together with the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, get_args

from resonance.engine.errors import ParameterError
from resonance.engine.parameters import listed
from resonance.engine.prepare.axes import MAX_AXES
from resonance.engine.prepare.scaling import bound
from resonance.kernels.arithmetic import log1p

Scale = Literal["warmup", "none", "given"]

MAX_WARMUP_RECORDS: Final = 1_000_000
WARMUP_RECORDS: Final = 200
"""Records of a warm-up that no parameter says."""
PROJECTED_RECORDS: Final = 500
"""The same where principal axes are learned: directions want more records than ranges."""
AUTO_COLUMNS: Final = 33
"""Prepared columns from which on ``auto`` projects: up to 32 the engines tell clusters apart as well without."""
AUTO_AXES: Final = 16


@dataclass(frozen=True)
class PreparationParameters:
    """The parameters of `Preparation`, which describes them, in the form in which a state keeps them.

    Raises
    ------
    ParameterError
        A parameter outside its range, or a name that is no feature.
    """

    features: Sequence[str]
    scale: Scale = "warmup"
    warmup_records: int | None = None
    missing: float | Literal["reject", "mean"] = "reject"
    log1p: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    clip: bool = False
    project: int | Literal["auto"] = 0
    robust: bool = False
    rescale: bool = False

    def __post_init__(self) -> None:
        """Take every parameter in the form in which a state has it, and check it."""
        own = {
            "features": tuple(self.features),
            "missing": self.missing if isinstance(self.missing, str) else bound("missing", self.missing),
            "log1p": tuple(self.log1p),
            "categories": {name: tuple(values) for name, values in (self.categories or {}).items()},
            "ranges": {name: (pair[0], pair[1]) for name, pair in (self.ranges or {}).items()},
            **{name: bool(getattr(self, name)) for name in ("clip", "robust", "rescale")},
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)
        if not self.features or len(set(self.features)) != len(self.features):
            raise ParameterError("features", list(self.features), "at least one name, each of them once")
        if self.scale not in get_args(Scale):
            raise ParameterError("scale", self.scale, "one of " + ", ".join(get_args(Scale)))
        records = self.warmup_records
        if records is not None and not (_is_integer(records) and 1 <= records <= MAX_WARMUP_RECORDS):
            raise ParameterError("warmup_records", records, f"an integer from 1 to {MAX_WARMUP_RECORDS:,}")
        if isinstance(self.missing, str) and self.missing not in ("reject", "mean"):
            raise ParameterError("missing", self.missing, "reject, mean or a number")
        self._check_names()
        self._check_ranges()
        self._check_project()

    def _check_names(self) -> None:
        for setting, names in (("log1p", self.log1p), ("categories", self.categories), ("ranges", self.ranges)):
            for name in names:
                if name not in self.features:
                    raise ParameterError(setting, name, f"one of the features {listed(self.features, name)}")
        for name in (*self.log1p, *self.ranges):
            if name in self.categories:
                raise ParameterError("categories", name, "a feature without log1p and without a range")
        for name, values in self.categories.items():
            if not values or len(set(values)) != len(values):
                raise ParameterError(f"categories.{name}", list(values), "at least one value, each of them once")
        if self.robust and (self.scale != "warmup" or self.clip):
            what = "false or auto, because it is learned with the scale of a warm-up, for engines that take any value"
            raise ParameterError("robust", True, what)
        if self.rescale and (self.scale != "warmup" or self.clip):
            what = "false or auto, because only the scale of a warm-up, for engines that take any value, is frozen anew"
            raise ParameterError("rescale", True, what)
        if self.log1p and not isinstance(self.missing, str) and self.missing <= -1.0:
            raise ParameterError("missing", self.missing, "above -1, because log1p is taken of it")

    def _check_ranges(self) -> None:
        if self.ranges and self.scale != "given":
            raise ParameterError("ranges", sorted(self.ranges), f"absent with scale = {self.scale}, or scale given")
        for name in self.features if self.scale == "given" else ():
            if name not in self.ranges and name not in self.categories:
                raise ParameterError("ranges", sorted(self.ranges), f"a range for every feature: {name} has none")
        for name in self.ranges:
            self.range_of(name)

    def _check_project(self) -> None:
        project = self.project
        if project == "auto":
            return
        if not _is_integer(project) or not 0 <= project <= MAX_AXES:
            raise ParameterError("project", project, f"auto, or an integer from 0 to {MAX_AXES}")
        if project and self.clip:
            raise ParameterError("project", project, "0 or auto, because the engine is defined on [0, 1] alone")
        if project > len(self.columns):
            what = f"auto, or at most {len(self.columns)}, the columns that a record has before it is projected"
            raise ParameterError("project", project, what)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the prepared columns: a feature's own name, or ``feature=value`` for each value of a category."""
        listed: list[str] = []
        for name in self.features:
            listed += [f"{name}={value}" for value in self.categories.get(name, ())] or [name]
        return tuple(listed)

    @property
    def axes(self) -> int:
        """Principal axes to project on, at most; 0 for none."""
        if self.project != "auto":
            return self.project
        # Known ranges, and features that are to stay as they are, want no warm-up.
        chosen = self.scale == "warmup" and not self.clip and len(self.columns) >= AUTO_COLUMNS
        return AUTO_AXES if chosen else 0

    @property
    def held(self) -> int:
        """Records of a warm-up."""
        return self.warmup_records or (PROJECTED_RECORDS if self.axes else WARMUP_RECORDS)

    @property
    def needs_warmup(self) -> bool:
        """Whether anything is learned from the first records."""
        return self.scale == "warmup" or self.missing == "mean" or self.axes > 0

    def range_of(self, name: str) -> tuple[float, float]:
        """Return what becomes 0 of a feature with a given range, and how wide [0, 1] is."""
        setting = f"ranges.{name}"
        low, high = (bound(setting, end) for end in self.ranges[name])
        if name in self.log1p:
            if low <= -1.0 or high <= -1.0:
                raise ParameterError(setting, (low, high), "above -1, because log1p is taken of it")
            low, high = log1p(low), log1p(high)
        if not low < high:
            raise ParameterError(setting, self.ranges[name], "two numbers, the smaller one first")
        return low, high - low


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
