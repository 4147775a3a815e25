"""The arithmetic of alerts: what is unusual in answers, what time it is, which streams are silent, what they lack."""

from resonance.pipeline.task.alerts.kernels import clock, missing, silence, stream_rules


def compile() -> None:
    """Compile every kernel, or load it from the cache."""
    stream_rules.compile()
    silence.compile()
    clock.compile()
    missing.compile()


__all__ = ["clock", "compile", "missing", "silence", "stream_rules"]
