"""Deterministic simulation: a broker, a network and a clock driven by a seed, under the worker's own code."""
