"""The outputs as a subscriber sees them, in sentences."""
