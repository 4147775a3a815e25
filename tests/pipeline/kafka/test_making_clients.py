"""What librdkafka refuses only when a client is made is an error of the settings, which it names."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.worker.delivery.delivery import make_delivery

CLIENT = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        (
            "socket.timeout.ms",
            "120000",
            ("`transaction.timeout.ms`", "transaction.timeout.ms follows from delivery.transaction_timeout"),
        ),
    ],
)
def test_a_worker_names_the_property_that_its_producer_cannot_have(name, value, parts):
    settings = Settings(input={"topics": ["in"]}, broker={"librdkafka": {name: value}})
    with pytest.raises(ConfigurationError) as caught:
        make_delivery(settings, Deployment(1, {}), lambda *_: None, MemoryBudget.of("auto"))
    text = str(caught.value)
    assert text.startswith(f"[broker.librdkafka]: no connection can be made with {name} = {value} (`{name}` must be ")
    assert all(part in text for part in parts)
    assert text.endswith(f"; correct {name}, or leave it out")


@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_every_kind_of_client_has_the_same_error(kind):
    settings = {**CLIENT, "security.protocol": "ssl", "ssl.key.location": "/absent.pem"}
    if kind is Consumer:
        settings["group.id"] = "g"
    with pytest.raises(ConfigurationError, match=r"with ssl\.key\.location = /absent\.pem \(ssl\.key\.location failed"):
        new_client(kind, settings)


def test_a_reader_has_it_and_a_property_that_is_missing_is_named():
    client = {**CLIENT, "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
    client |= {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.secret": "hidden"}
    with pytest.raises(ConfigurationError, match=r"`sasl\.oauthbearer\.token\.endpoint\.url` is mandatory") as caught:
        LogReader(client, "g", 1.0)
    assert "hidden" not in str(caught.value)


def test_any_other_error_of_librdkafka_passes():
    def failing(_):
        raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "no thread"))

    with pytest.raises(KafkaException):
        new_client(failing, CLIENT)
