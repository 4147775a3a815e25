"""Choose what decodes the records of a partition."""

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.decode.float_records import FloatMapping
from resonance.pipeline.task.decode.framed_records import FramedMapping
from resonance.pipeline.task.decode.json_records import InputMapping


def make_mapping(settings: Settings) -> InputMapping:
    """Return what decodes the records of one partition in the format that the settings name."""
    # A message that has many is taken apart into JSON.
    return InputMapping(settings) if settings.has_many else message_mapping(settings)


def message_mapping(settings: Settings) -> InputMapping:
    """Return what decodes whole messages in the format that the settings name."""
    if settings.is_framed:
        return FramedMapping(settings)
    return (FloatMapping if settings.input.format == "float32" else InputMapping)(settings)
