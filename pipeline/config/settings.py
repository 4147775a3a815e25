"""The settings of a deployment: command line > environment > file > defaults.

The file is TOML, with the sections of `sections`; in the environment ``[input] topics`` is
``RESONANCE_INPUT__TOPICS``, on the command line ``--input.topics``. Unknown keys are refused everywhere.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource
from resonance.engine import ENGINES
from resonance.pipeline.config.checks import check
from resonance.pipeline.config.fields import Fields
from resonance.pipeline.config.messages import ValueOrigins, from_validation
from resonance.pipeline.config.properties import apart
from resonance.pipeline.config.sections import EngineSection, Section
from resonance.pipeline.config.sources import merged, nested, read_file, refuse_unknown_variables, with_sparse_defaults


class Settings(Fields):
    """All settings, checked once and frozen.

    The constructor reads neither the environment nor a file: `load` reads both, `of` checks given values alone.
    """

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use the values given to the constructor and no others, because `load` joins the sources."""
        return (init_settings,)

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        flags: Mapping[str, Any] | None = None,
        otherwise: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read the settings from the file, the environment and the flags; `otherwise` applies before the defaults.

        Without `file`, ``resonance.toml`` of the working folder is read where it exists; mappings may be nested or have
        dotted names. The `ConfigurationError` names setting, value, what is allowed, and what to do.
        """
        file_name, file_values = read_file(file)
        flag_values = apart(nested(flags or {}))
        refuse_unknown_variables(cls._known())
        environment, file_values = apart(EnvSettingsSource(cls)()), apart(file_values)
        origins = ValueOrigins(flag_values, environment, file_values, file_name)
        return cls._checked(merged(nested(otherwise or {}), file_values, environment, flag_values), origins)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings of these values alone, nested or with dotted names, checked as in `load`."""
        return cls._checked(apart(nested(values)), ValueOrigins({}, {}, {}, None))

    @classmethod
    def _checked(cls, values: dict[str, Any], origins: ValueOrigins) -> Self:
        try:
            # An absent [input] counts as empty, so that the error names the settings that it lacks.
            settings = cls(**{"input": {}, **with_sparse_defaults(values)})
        except ValidationError as error:
            raise from_validation(error, cls._known(), origins) from None
        check(settings, origins)
        return settings

    @classmethod
    def _known(cls) -> dict[str, list[str]]:
        """Return the names in each section, and under ``""`` the sections and the settings outside them."""
        known = {"": list(cls.model_fields)}
        for name, field in cls.model_fields.items():
            section = field.annotation
            if isinstance(section, type) and issubclass(section, Section | EngineSection):
                known[name] = list(section.model_fields)
        known["engine"] += [each.name for each in ENGINES[EngineSection().name].parameters]
        return known
