"""A demonstration that runs by itself: telemetry with incidents, a worker that is killed, and the proof at the end."""
