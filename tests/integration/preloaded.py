"""Everything that a worker imports, and all kernels: imported once by the process that workers are forked from."""

from resonance.engine import ENGINES
from resonance.engine.drift import DriftWatch
from resonance.engine.prepare import Preparation
from resonance.pipeline.cli import main
from resonance.pipeline.task.alerts import kernels as alerts
from resonance.pipeline.worker import worker

__all__ = ["main", "worker"]

for kernels in (Preparation, DriftWatch, alerts, *ENGINES.values()):
    kernels.compile()
