"""What a worker reports over HTTP: health, readiness, metrics."""
