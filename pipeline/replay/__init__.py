"""Recorded data through the same partition task again: `replay`, `verify` and `bootstrap`."""
