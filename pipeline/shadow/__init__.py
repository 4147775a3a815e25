"""Two deployments on the same input: what sets their recorded outputs apart, for `compare`."""
