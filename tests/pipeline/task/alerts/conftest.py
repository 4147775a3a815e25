"""A window of dead letters that short logs fill."""

import pytest
from resonance.pipeline.task.alerts import rules as alert_rules


@pytest.fixture(autouse=True, scope="module")
def _small_window():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alert_rules, "DEAD_LETTERS_WINDOW", 100)
        yield
