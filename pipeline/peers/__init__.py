"""Compares the streams of a deployment: which is unlike its peers, in which feature, and how far."""
