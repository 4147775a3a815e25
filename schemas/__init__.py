"""Resonance."""
