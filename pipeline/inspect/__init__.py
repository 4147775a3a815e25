"""Streams, their clusters and their records as users look at them."""
