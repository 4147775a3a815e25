"""Dead letters after a fix: read, tracked and replayed."""
