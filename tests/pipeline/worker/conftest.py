"""Processors that end with their test."""

import pytest

from tests.pipeline.worker.processor_bench import Bench


@pytest.fixture
def bench():
    made = []

    def make(*, opened=True, **settings):
        made.append(Bench(**settings))
        if opened:
            made[-1].open()
        return made[-1]

    yield make
    for each in made:
        each.diary.gate.set()
        each.processor.stop()


@pytest.fixture
def b(bench):
    """A processor whose partitions are open."""
    return bench()
