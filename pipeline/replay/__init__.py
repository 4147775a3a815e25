"""Recorded data processed again by the same partition task, for `replay`, `verify` and `bootstrap`."""
