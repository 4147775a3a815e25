"""How good the clusters are: streams with their truth, and contestants, ours and those of other projects.

Each answers a record before it learns it. ``python -m bench.quality`` is the default engine on all streams, with
``--papers`` the figures of the engines' papers beside ours; ``--contestants all --sweep --page docs/peers.md`` writes
that page.
"""
