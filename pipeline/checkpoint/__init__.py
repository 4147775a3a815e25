"""Snapshots and archives of the models: written, read back and restored."""
