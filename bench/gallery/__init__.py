"""Streams that a practitioner would try first, with their truth, through the partition task with default settings.

``python -m bench.gallery`` runs all streams with the default engine, one line each.
"""
