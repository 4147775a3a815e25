"""Adaptive resonance for records with several labels."""
