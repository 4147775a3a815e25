"""Settings: what may be set, where it is read from, and what is said of a value that cannot be used."""
