"""A logger for librdkafka's clients: what they say of a broker that goes away is no news in a demo."""

import logging

SILENT = logging.Logger("librdkafka", level=logging.CRITICAL + 1)
"""Swallows everything; without it librdkafka writes to standard error, into the middle of the view."""
