"""The budget of a worker's memory: its default, its least, and shares that together are less than all of it."""

import pytest
from resonance.pipeline import memory_budget
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.memory_budget import LEAST, MIB, PEAK, MemoryBudget, automatic

GIVEN = {"input.topics": "in", "stream": "partition"}
BASE = 270 * MIB


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(memory_budget, "resident", lambda: BASE)
    monkeypatch.setattr(memory_budget, "memory", lambda: 8192 * MIB)


@pytest.mark.parametrize(
    ("has", "processes", "budget"),
    [(8192, 1, 4096), (8192, 4, 1024), (1024, 1, 512), (600, 1, 384), (512, 1, 384), (400, 1, 400 / PEAK)],
)
def test_the_default_is_half_of_the_machine_or_what_a_small_container_has_room_for(monkeypatch, has, processes, budget):
    monkeypatch.setattr(memory_budget, "memory", lambda: has * MIB)
    assert automatic(processes) == int(budget * MIB)


@pytest.mark.parametrize("given", ["1000", "-1", "half", "true", "1e3", LEAST - 1])
def test_a_budget_below_the_least_is_refused_with_the_settings(given):
    allowed = r"limits\.memory = .*: must be auto, or a number of bytes, at least 402653184"
    with pytest.raises(ConfigurationError, match=allowed):
        Settings.of({**GIVEN, "limits.memory": given})
    assert Settings.of({**GIVEN, "limits.memory": str(LEAST)}).limits.memory == LEAST
    assert Settings.of(GIVEN).limits.memory == "auto"


def test_a_container_with_less_than_the_least_stops_the_start(monkeypatch):
    monkeypatch.setattr(memory_budget, "memory", lambda: 256 * MIB)
    refused = r"limits\.memory = auto, .* of the 268,435,456 bytes .*at least 402,653.*container of at least 523,449"
    with pytest.raises(ConfigurationError, match=refused):
        MemoryBudget.of("auto")


def test_a_program_that_takes_nearly_all_of_it_stops_the_start(monkeypatch):
    monkeypatch.setattr(memory_budget, "resident", lambda: 380 * MIB)
    with pytest.raises(ConfigurationError, match=r"limits\.memory = 419,430,400: must be at least .*takes 398,458,880"):
        MemoryBudget.of(400 * MIB)


@pytest.mark.parametrize("total", [LEAST, 512 * MIB, 1024 * MIB, 65_536 * MIB])
def test_the_shares_are_less_than_all(total):
    budget = MemoryBudget.of(total)
    # A record is there twice while it is taken; an answer is unpacked beside all that waits.
    most = budget.queued + 2 * budget.taken + budget.batch + budget.kept + budget.sending
    assert budget.base + most <= total
    assert 0 < budget.foreign_answer <= budget.answer <= budget.batch
