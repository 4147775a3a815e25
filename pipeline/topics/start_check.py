"""Find everything about the broker that would go wrong later, before the worker joins its group."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, DeniedError
from resonance.pipeline.kafka.acl import for_transactions
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.embedded import SILENT
from resonance.pipeline.kafka.errors import reason_of, right_refused
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.registry.client import registry_of
from resonance.pipeline.task.decode.mapping import make_mapping
from resonance.pipeline.task.decode.unpacking import Unpacker
from resonance.pipeline.topics.kinds import INPUT, Topics
from resonance.pipeline.topics.topics import prepare_topics, read_deployment

GROUP_SECONDS: Final = 5.0
"""Time that the broker has to answer or refuse a question about the group."""

TRANSACTION_SECONDS: Final = 10.0
"""Time that the broker has to begin transactions for the tested id."""

_log = logging.getLogger(__name__)


def check_start(settings: Settings, client: Mapping[str, Any], *, create: bool) -> Deployment:
    """Check topics and rights as a worker does at its start; `create` makes missing topics instead of refusing them.

    Raises ConfigurationError where a setting does not fit the topics or the broker, BrokerError where the broker does
    not answer, a topic does not fit, or the user lacks a right, and RegistryError where the Schema Registry of the
    input does not answer.
    """
    # Checks of the settings and the input come first, so that a refused start has created no topics.
    Unpacker.of(settings)
    if settings.is_framed:
        make_mapping(settings)
        registry_of(settings.schema_registry).check()
    cluster = ClusterAdmin(client, settings.broker.answer_timeout, settings.topics.replication_factor)
    deployment = read_deployment(cluster, Topics.named(settings.input.topics), INPUT.operations)
    settings.check_stream(deployment.partitions)
    check_delivery(settings, deployment)
    deployment = prepare_topics(cluster, Topics.of(settings), create=create)
    # Only where there can be rights: the check of transactions creates an id that the broker keeps for some days.
    if not deployment.embedded and client.get("security.protocol", "plaintext").lower() != "plaintext":
        _check_group(settings, client)
        if settings.delivery.mode == "exactly_once":
            _check_transactions(settings, client)
    return deployment


def check_delivery(settings: Settings, deployment: Deployment) -> None:
    """Raise ConfigurationError, with the remedy, for a delivery mode that the broker does not support."""
    if deployment.embedded and settings.delivery.mode == "exactly_once":
        if settings.is_keyed:
            remedy = 'use Kafka, or hierarchy = "local" with "at_least_once"'
        elif settings.is_rekeyed:
            remedy = f'use Kafka, or with "at_least_once" a stream that is not re-keyed: not {settings.stream}, but '
            remedy += "partition or key"
        else:
            remedy = 'set "at_least_once", or use Kafka'
        raise ConfigurationError(
            'delivery.mode = "exactly_once": the embedded broker accepts transactions and does not keep them; ' + remedy
        )


def _check_group(settings: Settings, client: Mapping[str, Any]) -> None:
    """Raise DeniedError, with the missing right, where the user may not be a member of the group."""
    with LogReader(client, settings.group, GROUP_SECONDS) as reader:
        try:
            reader.committed([(settings.input.topics[0], 0)])
        except DeniedError:
            raise
        except BrokerError as error:
            # They may wait for the transaction of a killed worker, which this one ends later.
            _log.debug("the right to group %s is not checked: %s", settings.group, error)


def _check_transactions(settings: Settings, client: Mapping[str, Any]) -> None:
    """Begin transactions under an id that no worker has: a worker's own id would end those of a running worker."""
    name = f"{settings.name}-check"
    # As long as a worker's: librdkafka compares other times with it.
    own = {"transactional.id": name, "transaction.timeout.ms": round(1000 * settings.delivery.transaction_timeout)}
    producer = new_client(Producer, {**client, **own}, logger=SILENT)
    try:
        producer.init_transactions(TRANSACTION_SECONDS)
    except KafkaException as error:
        if denied := right_refused(client, error, for_transactions(settings.name)):
            raise denied from error
        # Any other error, also that of another worker's test at the same moment, is left to the delivery's own start.
        _log.debug("transactions were not tried: %s", reason_of(error))
