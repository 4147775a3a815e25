"""Records of which most are drawn, and what a survey of them finds."""

import random

from resonance.pipeline.files.kinds import Kinds
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.sources import source_of
from resonance.pipeline.files.suggest import suggest
from resonance.pipeline.files.survey import FileSurvey

DRAW = random.Random(7)


def stamp(minute):
    return f"2026-01-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00Z"


def measured(**members):
    return {**members, "load": DRAW.random(), "heat": DRAW.gauss(40, 3)}


def surveyed(rows):
    """Survey rows in uneven batches, as a file gives them."""
    seen = FileSurvey()
    for start in range(0, len(rows), 700):
        seen.add(rows[start : start + 700])
    return seen


def source(rows):
    seen = surveyed(rows)
    return source_of(seen, Kinds(seen))


def noted(rows, columns=None, chosen=None):
    return suggest(surveyed(rows), columns or Columns(), chosen)


def labels(rows):
    return Kinds(surveyed(rows)).labels


FOUR = [measured(box=f"b{n % 4}", at=stamp(n // 4)) for n in range(4_000)]
