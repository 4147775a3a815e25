"""Clusterers of other projects on the same streams: ``python -m bench.peers``."""
