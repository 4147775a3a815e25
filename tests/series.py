"""The names that a query of Prometheus can use."""

from resonance.pipeline.worker.assignment import Histograms
from resonance.pipeline.worker.http.metrics import METRICS, make_registry


def series_names():
    """Return every one of them, those of the process and of Python included."""
    registry = make_registry(dict, Histograms())
    return {row.name for row in METRICS} | {sample.name for family in registry.collect() for sample in family.samples}
