"""Recorded outputs compared with what the log gives again, byte for byte."""
