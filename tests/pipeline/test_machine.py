"""The worker's time goes into records and not into looking for cycles."""

import gc

import pytest
from resonance.pipeline.machine import YOUNG, collect_rarely


@pytest.fixture
def defaults():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("defaults")
def test_what_is_loaded_is_left_alone_and_collections_are_rare():
    collect_rarely()
    assert gc.get_freeze_count() > 1000
    collections = gc.get_stats()[0]["collections"]
    assert len([(number,) for number in range(YOUNG // 2)]) == YOUNG // 2
    assert gc.get_stats()[0]["collections"] <= collections + 1


@pytest.mark.usefixtures("defaults")
def test_cycles_are_still_collected():
    collect_rarely()
    before = gc.get_stats()[0]["collected"]
    for _ in range(3 * YOUNG):
        cycle = []
        cycle.append(cycle)
    assert gc.get_stats()[0]["collected"] > before
