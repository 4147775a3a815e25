"""Defaults and checks of the settings where records are sparse (``input.sparse``)."""

from collections.abc import Mapping
from typing import Any

from resonance import engine as engines
from resonance.engine.base import Engine
from resonance.engine.errors import ParameterError
from resonance.engine.sparse import SparseEngine
from resonance.engine.sparse_scale import SparseScale
from resonance.pipeline.config.messages import ValueOrigins, configuration_error
from resonance.pipeline.config.sections import InputSection, PrepareSection


def with_defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return unchecked values, with the defaults for sparse records added where ``input.sparse`` is set."""
    given, prepare = values.get("input"), values.get("prepare", {})
    path = given.get("sparse") if isinstance(given, Mapping) else None
    # In the environment, "none" and empty text stand for no value.
    if path is None or str(path).strip().lower() in ("", "none") or not isinstance(prepare, Mapping):
        return values
    return {**values, "prepare": {"scale": "none", **prepare}}


def scale_of(prepare: PrepareSection, engine: type[Engine]) -> SparseScale:
    """Return the scale for the values of sparse records.

    Raises `ParameterError`, with what is allowed, for settings that have no meaning for sparse records.
    """
    return SparseScale(prepare.scale, prepare.log1p, prepare.ranges, clip=engine.unit_interval)


def check(given: InputSection, prepare: PrepareSection, engine: type[Engine], origins: ValueOrigins) -> None:
    """Refuse settings that have no meaning where records are sparse.

    The `ConfigurationError` names the setting, its value, and what to do.
    """
    able = [name for name, each in sorted(engines.ENGINES.items()) if issubclass(each, SparseEngine)]
    problem = None
    if "features" in given.model_fields_set:
        problem = "does not go together with input.features; choose one of them"
    elif given.dimension is not None:
        problem = "does not go together with input.dimension: engine.max_features says how many features there can be"
    elif engine.name not in able:
        problem = (
            f"is for the engines that take sparse records, and engine.name is {engine.name}; choose "
            f"{' or '.join(able)}, or use input.features"
        )
    if problem:
        raise configuration_error("input.sparse", given.sparse, problem, origins.of(("input", "sparse")))
    absent = "has no meaning with input.sparse, where a feature that a record leaves out is 0; leave it out"
    if prepare.project not in ("auto", 0):
        problem = "is for dense records; leave it out with input.sparse"
        raise configuration_error("prepare.project", prepare.project, problem, origins.of(("prepare", "project")))
    for name, is_given in (("missing", prepare.missing != "reject"), ("categories", prepare.categories)):
        if is_given:
            place = origins.of(("prepare", name))
            raise configuration_error(f"prepare.{name}", getattr(prepare, name), absent, place)
    try:
        scale_of(prepare, engine)
    except ParameterError as error:
        setting = f"prepare.{error.name}"
        place = origins.of(setting.split(".")[:2])
        raise configuration_error(setting, error.value, f"with input.sparse must be {error.allowed}", place) from None
