"""The arithmetic of alerts: what is unusual in the answers of a stream, and which streams are silent."""

from resonance.engine.alerts import silence, stream_rules


def compile() -> None:
    """Compile every kernel, or load it from the cache."""
    stream_rules.compile()
    silence.compile()


__all__ = ["compile", "silence", "stream_rules"]
