"""The candidates of an evaluation: engines, and the values of settings that are swept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from resonance.engine.errors import ParameterError
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.evaluate.dataset import Dataset
from resonance.pipeline.evaluate.run import Run, run_candidate
from resonance.pipeline.evaluate.source import Recording
from resonance.pipeline.replay.jobs import Report

MOST: Final = 200
"""Most candidates of an evaluation."""

Load = Callable[[Mapping[str, Any]], Settings]
"""Returns the settings of the command with changes by dotted name."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings that are evaluated."""

    name: str
    settings: Settings
    changes: Mapping[str, str]
    """What differs from the settings of the command."""
    note: str = ""
    """What was left out of them."""


def sweep_of(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each setting that is swept; `texts` are like ``engine.lambda=25,50``.

    Values have a comma between, or a semicolon where a value itself has commas.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        key, separator, values = text.partition("=")
        each = [value.strip() for value in values.split(";" if ";" in values else ",")]
        if not separator or not key.strip() or not all(each):
            raise ConfigurationError(f"--sweep {key}: write it as KEY=VALUE,VALUE, such as engine.valley=0.3,0.5")
        if key.strip() in found:
            raise ConfigurationError(f"--sweep {key}: it is given twice; leave one out")
        found[key.strip()] = each
    return found


def candidates(load: Load, engines: Sequence[str], sweep: Mapping[str, Sequence[str]]) -> list[Candidate]:
    """Return a candidate for each engine and each combination of the swept values.

    A swept parameter of an engine applies to the engines that have it. Raises `ConfigurationError`, as settings do,
    where no engine has it, or a value cannot be used.
    """
    found: dict[str, Candidate] = {}
    applied: set[str] = set()
    errors: dict[str, ConfigurationError] = {}
    names = list(dict.fromkeys(engines)) or [load({}).engine.name]
    for engine in names:
        own = {} if not engines else {"engine.name": engine}
        load_own, note = _of_engine(load, engine) if engines else (load, "")
        keys = []
        for key, values in sweep.items():
            try:
                load_own({**own, key: values[0]})
            except ConfigurationError as error:
                errors.setdefault(key, error)
                if len(names) == 1 or not key.startswith("engine."):
                    raise
            else:
                keys.append(key)
                applied.add(key)
        for values in product(*(sweep[key] for key in keys)):
            changes = own | dict(zip(keys, values, strict=True))
            # Only the last part of a name, as long as it says which one it is.
            texts = [f"{key.rpartition('.')[2]}={value}" for key, value in zip(keys, values, strict=True)]
            name = " ".join([engine, *texts])
            found[name] = Candidate(name, load_own(changes), changes, note)
    for key in sweep:
        if key not in applied:
            raise errors[key]
    if len(found) > MOST:
        raise ConfigurationError(f"--sweep: {len(found):,} candidates, {MOST} are allowed; sweep fewer values at once")
    return list(found.values())


def _of_engine(load: Load, engine: str) -> tuple[Load, str]:
    """Return what loads the settings of an engine, and what is left out of them: parameters that only others have."""
    try:
        load({"engine.name": engine})
    except ConfigurationError as error:
        try:
            base = load({})
        except ConfigurationError:
            raise error from None
        if base.engine.name == engine:
            raise

        def load_alone(changes: Mapping[str, Any]) -> Settings:
            return Settings.of({**base.model_dump(), "engine": {"name": engine}, **changes})

        load_alone({})
        left_out = ", ".join(f"engine.{name}" for name in base.engine.given)
        return load_alone, f"{engine} begins with its own defaults, without the settings {left_out}"
    return load, ""


def evaluated(candidate: Candidate, source: Recording, data: Dataset, seed: int | None, report: Report) -> Run:
    """Run a candidate; an error of its settings or of its engine names it."""
    try:
        return run_candidate(candidate.settings, source, data, seed, report)
    except ParameterError as error:
        raise ConfigurationError(f"{candidate.name}: {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{candidate.name}: {error}") from error
