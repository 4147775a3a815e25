"""The settings of a deployment: command line > environment > file > defaults.

The file is TOML, with the sections of `sections`; in the environment ``[input] topics`` is
``RESONANCE_INPUT__TOPICS``, on the command line ``--input.topics``. Unknown keys are refused everywhere.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource
from resonance.pipeline.config import sparse
from resonance.pipeline.config.checks import check
from resonance.pipeline.config.fields import Fields
from resonance.pipeline.config.messages import ValueOrigins, from_validation
from resonance.pipeline.config.sections import EngineSection, Section
from resonance.pipeline.config.sources import merged, nested, read_file, refuse_unknown_variables


class Settings(Fields):
    """Everything that can be set, checked once and frozen.

    Calling the class reads neither the environment nor a file: `load` does, `of` checks given values alone.
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
        """Take what the constructor is given and nothing else: `load` joins the sources."""
        return (init_settings,)

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        flags: Mapping[str, Any] | None = None,
        otherwise: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read the settings from all sources.

        Parameters
        ----------
        file : Path, optional
            The file; without it ``resonance.toml`` of the working folder, if there is one.
        flags : mapping of str to object, optional
            Values of the command line, by name (``input.topics``) or nested.
        otherwise : mapping of str to object, optional
            Values for what no source says, before the defaults.

        Raises
        ------
        ConfigurationError
            Naming setting, value, what is allowed, and what to do.
        """
        file_name, file_values = read_file(file)
        flag_values = nested(flags or {})
        refuse_unknown_variables(cls._known())
        environment = EnvSettingsSource(cls)()
        origins = ValueOrigins(flag_values, environment, file_values, file_name)
        return cls._checked(merged(nested(otherwise or {}), file_values, environment, flag_values), origins)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Check values, nested or with dotted names, with no other source.

        Raises
        ------
        ConfigurationError
            As in `load`.
        """
        return cls._checked(nested(values), ValueOrigins({}, {}, {}, None))

    @classmethod
    def _checked(cls, values: dict[str, Any], origins: ValueOrigins) -> Self:
        try:
            # An absent section is an empty one: what it lacks is then named in full.
            settings = cls(**{"input": {}, **sparse.with_defaults(values)})
        except ValidationError as error:
            raise from_validation(error, cls._known(), origins) from None
        check(settings, origins)
        return settings

    @classmethod
    def _known(cls) -> dict[str, list[str]]:
        """Return the names of each section; of the whole under ``""``."""
        known = {"": list(cls.model_fields)}
        for name, field in cls.model_fields.items():
            section = field.annotation
            if isinstance(section, type) and issubclass(section, Section | EngineSection):
                known[name] = list(section.model_fields)
        return known
