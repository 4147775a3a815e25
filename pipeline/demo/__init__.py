"""A self-contained demonstration: telemetry with incidents, a worker that is killed, and the proof at the end."""
