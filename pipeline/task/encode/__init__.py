"""The messages that are emitted: assignments, cluster events, descriptions, and their sizes."""
