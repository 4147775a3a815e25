"""The outputs as a subscriber reads them, described in sentences."""
