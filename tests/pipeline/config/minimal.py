"""The fewest settings that make a deployment, and what is refused beside them."""

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError

MINIMAL = {"input.topics": ["features"]}


def refusal(values):
    with pytest.raises(ConfigurationError) as caught:
        Settings.of({**MINIMAL, **values})
    return str(caught.value)
