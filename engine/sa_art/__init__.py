"""Adaptive resonance for data in [0, 1], sparse data above all."""

from resonance.engine.sa_art.fuzzy_art import FuzzyART
from resonance.engine.sa_art.sa_art import SAART

__all__ = ["SAART", "FuzzyART"]
