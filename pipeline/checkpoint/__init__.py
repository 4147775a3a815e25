"""States on their topics: snapshots, archives, and what a start makes of them."""
