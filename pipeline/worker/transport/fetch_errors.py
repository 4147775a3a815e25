"""Errors of aiokafka after which no further record comes, and what they mean for a user."""

from collections.abc import Mapping
from typing import Any

from aiokafka import errors as aiokafka_errors
from resonance.pipeline import mismatches
from resonance.pipeline.errors import BrokerError, ConfigurationError
from resonance.pipeline.worker.transport.connections import LOGIN_ERRORS, refused

REFUSED_MEMBERS = {
    aiokafka_errors.InvalidSessionTimeoutError: (
        "broker.session_timeout: the broker does not allow it; choose seconds between its group.min.session.timeout.ms "
        "(6 s by default) and group.max.session.timeout.ms (30 minutes by default), or change these"
    ),
    aiokafka_errors.InconsistentGroupProtocolError: (
        "name: the consumer group of this name has members of another program, or of another way to share partitions; "
        "choose another name, or stop those members"
    ),
    aiokafka_errors.InvalidGroupIdError: (
        "name: the broker does not take it as the name of a consumer group; choose another"
    ),
}
"""Errors of aiokafka with which the group refuses this worker for good: each is caused by a setting."""

LASTING_ERRORS = (
    *REFUSED_MEMBERS,
    *LOGIN_ERRORS,
    aiokafka_errors.OffsetOutOfRangeError,
    aiokafka_errors.TopicAuthorizationFailedError,
    aiokafka_errors.GroupAuthorizationFailedError,
    aiokafka_errors.UnsupportedCodecError,
    aiokafka_errors.CorruptRecordException,
    aiokafka_errors.RecordTooLargeError,
)
"""Errors of aiokafka that no retry resolves; it reports the coordinator's passing troubles the same way."""


def explained(error: BaseException, client: Mapping[str, Any]) -> BaseException:
    """Return an error of the consumer in words for a user, where it is one of the broker's or the log's.

    `client` is the librdkafka configuration of the connection, which shows what was refused to which user.
    """
    if denied := refused(client, error):
        return denied
    if isinstance(error, aiokafka_errors.OffsetOutOfRangeError):
        return mismatches.truncated_ahead(error.args[0])
    if isinstance(error, aiokafka_errors.UnsupportedCodecError):
        return BrokerError(f"the input is compressed in a way that cannot be read: {error}; install aiokafka[all]")
    if type(error) in REFUSED_MEMBERS:
        return ConfigurationError(REFUSED_MEMBERS[type(error)])
    if isinstance(error, aiokafka_errors.KafkaConnectionError):
        return BrokerError(
            f"no Kafka broker answers any more at {client['bootstrap.servers']} ({error}); the worker may be started "
            "again at once, and begins with the same question"
        )
    if isinstance(error, aiokafka_errors.KafkaError):
        text = str(error) or type(error).__name__
        return BrokerError(f"the broker refuses to serve the input: {text}; check the topic, its ACLs and the broker")
    return error
