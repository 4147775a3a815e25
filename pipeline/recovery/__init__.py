"""Changes of stored state on request: recovery from a startup mismatch, reset, rollback and import."""
