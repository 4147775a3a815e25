"""What the error of a transaction's call means for the worker: a right is missing, it is fenced, or time ran out."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError
from resonance.pipeline.errors import (
    BrokerError,
    ConfigurationError,
    DeliveryError,
    DeniedError,
    FencedError,
    ResonanceError,
)
from resonance.pipeline.kafka.acl import Acl, for_group, for_topic, for_transactions
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.errors import described, missing_right, right_refused
from resonance.pipeline.kafka.producer import LOOK_SECONDS, Outlet

FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
    }
)


class TransactionErrors:
    """Explains the errors of the transactions of one id, which the broker aborts after `timeout` seconds.

    `client` is librdkafka's configuration of the producer.
    """

    def __init__(self, client: Mapping[str, Any], group: str, transactional_id: str, timeout: float) -> None:
        self._client = client
        self._group = group
        self._id = transactional_id
        self._timeout = timeout
        self.topics: set[tuple[str, str]] = set()
        """Topics of the transactions so far, each with the operation that they need a right to."""

    def denied(self, outlet: Outlet, problem: KafkaError, *, at_once: bool = False) -> DeniedError | None:
        """Return why the cluster refuses this worker's writes; None where the problem is another one."""
        code = problem.code()
        right = None
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            right = for_group(self._group)
        elif code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            right = for_transactions(self._group)
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            right = self._refused_topic()
        return right_refused(self._client, problem, right) or outlet.denied(at_once=at_once)

    def _refused_topic(self) -> Acl | None:
        """Return the right that is missing on a topic, because the answer to a transaction does not name the topic."""
        with suppress(BrokerError, ConfigurationError):
            cluster = ClusterAdmin(self._client, LOOK_SECONDS)
            for name, operation in sorted(self.topics):
                try:
                    topic = cluster.find([name], {name: [operation]}).get(name)
                except DeniedError:
                    return for_topic(name, [operation])
                if topic is not None and topic.operations is not None and operation not in topic.operations:
                    return for_topic(name, [operation])
        return None

    def failed(self, outlet: Outlet, what: str, problem: KafkaError, began: float) -> ResonanceError:
        """Return the error of the transaction whose call `what` failed; `began` is its monotonic time."""
        problem = outlet.fatal_error() or problem
        denied = self.denied(outlet, problem, at_once=True)
        # A call after the refused one reports only a wrong state.
        if denied is None and problem.code() == KafkaError._STATE and (right := self._refused_topic()):
            denied = DeniedError(missing_right(self._client, right))
        if denied:
            return denied
        if time.monotonic() - began >= self._timeout:
            # The broker fences a transaction that timed out with the same codes as one whose id was taken over.
            return DeliveryError(
                f"transactional id {self._id}: the transaction was open for longer than delivery.transaction_timeout = "
                f"{self._timeout:g} s and the broker aborted it ({problem.str()}); start again{outlet.throttled}"
            )
        if problem.code() in FENCED:
            return FencedError(
                f"transactional id {self._id}: another worker has begun with it; give each worker its own worker.id "
                "(or web port), and start again where this one was silent for broker.session_timeout"
            )
        return DeliveryError(
            f"transactional id {self._id}, {what} of the transaction: {described(problem)}; nothing of it counts, and "
            f"a restart goes on at the last commit{outlet.throttled}"
        )
