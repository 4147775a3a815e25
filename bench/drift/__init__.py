"""The watch for changes: what it finds and how soon, what it finds in vain, what it costs; River's detectors beside it.

``python -m bench.drift`` runs all of it for hours; options choose less. A shape is features x kinds of records.
"""
