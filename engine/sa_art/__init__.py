"""Adaptive resonance for data in [0, 1], sparse data above all."""
