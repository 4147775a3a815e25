"""What is emitted: assignments, cluster events, descriptions, and the room they take."""
