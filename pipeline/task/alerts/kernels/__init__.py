"""The arithmetic of alerts: what is unusual in the answers of a stream, what time it is, which streams are silent."""

from resonance.pipeline.task.alerts.kernels import clock, silence, stream_rules


def compile() -> None:
    """Compile every kernel, or load it from the cache."""
    stream_rules.compile()
    silence.compile()
    clock.compile()


__all__ = ["clock", "compile", "silence", "stream_rules"]
