"""Compares the streams of a deployment with each other: which is unlike its peers, in which feature, and how far."""
