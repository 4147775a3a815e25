"""Adaptive resonance for records with several labels."""

from resonance.engine.mlca.mlca import MLCA, MLCAC, MLCAI

__all__ = ["MLCA", "MLCAC", "MLCAI"]
