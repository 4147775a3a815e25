"""What a worker tells about itself over HTTP: health, readiness, metrics."""
