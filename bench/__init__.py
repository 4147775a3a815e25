"""Benchmarks: each is one command that prints a table, or its rows as JSON."""
