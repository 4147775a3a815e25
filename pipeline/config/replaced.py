"""Settings of earlier releases, and what takes their place."""

import re
from collections.abc import Mapping
from typing import Final

REPLACED: Final[Mapping[str, str]] = {
    "broker.(sasl_oauthbearer_.*)": (
        "it is librdkafka's own, beside sasl.oauthbearer.method = oidc: broker.librdkafka.{dotted}, in the environment "
        "RESONANCE_BROKER__LIBRDKAFKA__{upper} (docs/security.md)"
    ),
    "broker.((?:security|sasl|https|ssl)_.*)": (
        "it is librdkafka's own: broker.librdkafka.{dotted}, in the environment "
        "RESONANCE_BROKER__LIBRDKAFKA__{upper} (docs/security.md)"
    ),
    "alerts.(unlike|new_cluster|share|drift_open|one_cluster|unconfirmed|dead_letters|silent)": (
        'rules are switched off by name, as alerts.off = ["{}"]'
    ),
    "alerts.(new_cluster|one_cluster|unconfirmed|dead_letters|silent)_.*": (
        'its value is fixed (docs/alerts.md); leave it out, or switch the rule off: alerts.off = ["{}"]'
    ),
    "emit_from": "`resonance bootstrap` learns what came before, without output (docs/replay.md)",
    "schema_registry.basic_auth_.*": (
        "it is schema_registry.client.basic.auth.user.info = user:password, in the environment "
        "RESONANCE_SCHEMA_REGISTRY__CLIENT__BASIC_AUTH_USER_INFO"
    ),
    "schema_registry.(?:timeout|max_retries|retries_.*)": "a registry is given up after 23 seconds; leave it out",
    "schema_registry.(ssl_.*)": (
        "it is confluent-kafka's own: schema_registry.client.{dotted}, in the environment "
        "RESONANCE_SCHEMA_REGISTRY__CLIENT__{upper}"
    ),
    "output.compression": "it is librdkafka's own: broker.librdkafka.compression.type",
    "drift.(?:step|hold|ordinary|cells)": "its value is fixed (docs/drift.md); leave it out",
    "limits.key_bytes": "the name of a stream has at most 256 bytes; leave it out",
    "limits.dead_letter_bytes": "a dead letter has at most 900,000 bytes; leave it out",
    "limits.dead_letters_in_a_row": "a partition pauses beyond dlq.max_share",
    "dlq.window": "it is fixed at 1,000 records; dlq.max_share says how many of them pause a partition",
    "topics.(assignments|cluster_events|drift_events|alerts|dead_letters|clusters|snapshots|archive|routes|names)": (
        "all topics are named by topics.pattern, by default {{name}}.{{kind}}"
    ),
}
"""What an error says, by a pattern of the old names, whose group it may have."""


def replacement_of(setting: str) -> str | None:
    """Return what takes the place of a setting, None where no earlier release had it."""
    for pattern, now in REPLACED.items():
        if found := re.fullmatch(pattern, setting):
            old = (found.groups() or ("",))[0]
            return now.format(old, dotted=old.replace("_", "."), upper=old.upper())
    return None
