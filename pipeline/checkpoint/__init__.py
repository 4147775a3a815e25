"""Snapshots and archives of the models: written, read back, restored and compared."""
