"""Compares recorded outputs with a replay of the log, byte for byte."""
