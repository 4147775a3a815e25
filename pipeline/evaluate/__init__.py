"""How good engines and settings are on recorded data: figures, their comparison and a report, for `evaluate`."""
