"""The start check of topics on the embedded broker, and without any broker."""

import time

import pytest
from resonance.pipeline.embedded import EmbeddedBroker
from resonance.pipeline.errors import BrokerError, ConfigurationError
from resonance.pipeline.topics import prepare_topics

from tests.brokers.jvm import free_port


def test_an_absent_broker_is_said_within_seconds():
    servers = f"127.0.0.1:{free_port()}"
    start = time.monotonic()
    with pytest.raises(BrokerError) as caught:
        prepare_topics({"bootstrap.servers": servers}, inputs=["in"], outputs=[], snapshots="s", timeout=2)
    assert time.monotonic() - start < 4
    text = str(caught.value)
    assert f"no Kafka broker answers at {servers} within 2 s" in text
    assert "Connection refused" in text
    assert "set broker.bootstrap" in text


@pytest.mark.parametrize(
    ("client", "told"),
    [
        ({"security.protocol": "SSL", "ssl.ca.location": "/absent.pem"}, "ssl.ca.location failed"),
        ({"security.protocol": "SSL", "ssl.certificate.location": "/absent.pem"}, "ssl.certificate.location failed"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "SASL"),
    ],
)
def test_a_connection_that_cannot_be_set_up_names_its_settings(client, told):
    with pytest.raises(ConfigurationError, match=r"look at broker\.security_protocol") as caught:
        prepare_topics({"bootstrap.servers": "127.0.0.1:9", **client}, inputs=["in"], outputs=[], snapshots="s")
    assert told in str(caught.value)


def test_the_embedded_broker_has_its_topics_touched():
    with EmbeddedBroker([]) as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        found = prepare_topics(client, inputs=["in"], outputs=["out"], snapshots="snap")
        assert found.embedded
        assert found.partitions == 4
        assert found.topic_ids == {"in": ""}
        again = prepare_topics(client, inputs=["in"], outputs=["out"], snapshots="snap", create=False)
        assert again == found
