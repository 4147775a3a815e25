"""Texts of a whole batch read and written by kernels: numbers, times, and the members of JSON objects."""

from resonance.pipeline.text import elements, json_members, messages, paste, times


def compile() -> None:
    """Compile every kernel, or load it from the cache."""
    elements.compile()
    json_members.compile()
    messages.compile()
    paste.compile()
    times.compile()


__all__ = ["compile", "elements", "json_members", "messages", "paste", "times"]
