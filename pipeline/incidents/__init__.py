"""What happened: alerts and drifts of one stream or many that belong together, with their cause."""
