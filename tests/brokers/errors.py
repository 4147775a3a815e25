"""Why there is no broker."""


class NoBrokerError(Exception):
    """A way to a broker does not work here; the text says why."""
