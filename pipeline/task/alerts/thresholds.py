"""When the rules of the alerts open, beside `alerts.rarity`; docs/alerts.md has these numbers."""

from typing import Final

NEW_CLUSTER_SHARE: Final = 0.1
"""Share of recent records from which a new cluster is large."""
ONE_CLUSTER_SHARE: Final = 0.98
ONE_CLUSTER_RECORDS: Final = 10_000
"""Records of which one cluster takes nearly all."""
UNCONFIRMED_RECORDS: Final = 5_000
"""Records without a confirmed cluster."""
DEAD_LETTERS_SHARE: Final = 0.05
DEAD_LETTERS_WINDOW: Final = 1_000
"""Last records of a partition whose dead letters are counted."""
SILENT_GAPS: Final = 20.0
"""Usual gaps after which a stream is silent."""
SILENT_SECONDS: Final = 60.0
"""Seconds after which it is, at least."""
