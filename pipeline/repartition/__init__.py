"""Repartition: records are learned where their stream lives, and not where they were read."""
