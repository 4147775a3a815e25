"""Sizes of messages to subtrees: how vectors are split, and what the routes topic must accept."""

from collections.abc import Sequence
from typing import Final

from resonance.engine.errors import ParameterError
from resonance.engine.prepare import Preparation
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.repartition.envelope import REST_BYTES
from resonance.pipeline.task.decode.dense import Layout, Shape
from resonance.pipeline.task.encode.message_sizes import ANSWER_BYTES, CAUSE_BYTES

VECTORS_BYTES: Final = 100_000
"""Most bytes of vectors and labels in one message, unless one vector alone is longer."""

NUMBER_BYTES: Final = 8
"""Bytes of a number in a vector, and of a label."""

MIN_BYTES: Final = 1_000_000
"""Message size that the topic accepts at least, whatever `limits.record_bytes` is."""

_FRAME: Final = 20_000
"""Bytes of the rest: head, name of the subtree, ``traceparent``, and what Kafka adds."""


def most_vectors(dimension: int) -> int:
    """Return the largest number of vectors of a dimension in one message."""
    return max(1, VECTORS_BYTES // (NUMBER_BYTES * (dimension + 1)))


def operation_bytes(settings: Settings) -> int:
    """Return the message size that the routes topic must accept, as far as the settings determine it."""
    usual, features = max(settings.limits.record_bytes, MIN_BYTES) + REST_BYTES, settings.features
    if features is None and settings.input.dimension is not None:
        features = Layout(settings, Shape(settings.input.dimension, ())).features
    if features is None:
        return usual
    try:
        return max(usual, _needed(settings.preparation(features)))
    except ParameterError:
        # Settings and features do not fit together; the error of the first record names them.
        return usual


def check_room(settings: Settings, features: Sequence[str], where: str) -> None:
    """Refuse a stream whose messages to subtrees could be longer than the routes topic accepts.

    `where` is the input partition. The `ConfigurationError` names the settings that make the topic large enough.
    """
    needed, taken = _needed(settings.preparation(features)), operation_bytes(settings)
    if needed > taken:
        raise ConfigurationError(
            f"{where}: with hierarchy = keyed a record of {len(features):,} features can have {needed:,} bytes on "
            f"{settings.topic('routes')}, where the settings allow {taken:,}; say in them what a record has "
            f"(input.dimension = {len(features)}, or a list as input.features), and the start requires a topic that "
            "takes it; or use fewer features, or choose hierarchy = local. Where models have learned already, "
            "choose another name, too: they go on under the settings that they had alone"
        )


def _needed(preparation: Preparation) -> int:
    """Return the bytes of the longest message to a subtree of a stream with this initial preparation."""
    vectors = max(VECTORS_BYTES, NUMBER_BYTES * (preparation.dimension + 1))
    # What is learned of the features later has as many bytes as its placeholder has now.
    return max(vectors + ANSWER_BYTES, len(preparation.state()) + CAUSE_BYTES) + _FRAME
