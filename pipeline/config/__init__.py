"""Settings: their values and checks, the sources they are read from, and the errors for unusable values."""
