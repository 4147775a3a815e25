"""Brokers, properties of librdkafka, and secrets, which are never shown."""

import re

import pytest
from confluent_kafka import KafkaException, Producer
from resonance.pipeline.cli.options import given
from resonance.pipeline.config.properties import OWNED
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.clients import librdkafka

from tests.pipeline.config.minimal import MINIMAL, refusal


def test_properties_of_librdkafka_are_joined_one_by_one(monkeypatch, tmp_path):
    """Dots are tables in a file, and underscores in the environment."""
    file = tmp_path / "shop.toml"
    file.write_text(
        '[input]\ntopics = ["in"]\n[broker.librdkafka]\nsecurity.protocol = "SASL_SSL"\nsasl.username = "file"\n'
        '"ssl.ca.location" = "/ca.pem"\nsocket.keepalive.enable = true\nsocket.timeout.ms = 9000\ndebug = ""\n'
    )
    monkeypatch.setenv("RESONANCE_BROKER__LIBRDKAFKA__SASL_PASSWORD", "none")
    monkeypatch.setenv("RESONANCE_BROKER__LIBRDKAFKA__SASL_USERNAME", "environment")
    found = librdkafka(Settings.load(file, {"broker.librdkafka.sasl.username": "me", "worker.id": "w", "name": "shop"}))
    assert found == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "shop-w",
        "security.protocol": "SASL_SSL",
        "sasl.username": "me",
        "ssl.ca.location": "/ca.pem",
        "socket.keepalive.enable": "true",
        "socket.timeout.ms": "9000",
        "sasl.password": "none",
    }
    monkeypatch.setenv("RESONANCE_BROKER__LIBRDKAFKA__SASL_MECHANIM", "PLAIN")
    with pytest.raises(ConfigurationError, match=r"mechanim = \*+ \(from RESONANCE_BROKER__LIBRDKAFKA__SASL_ME"):
        Settings.load(file)


def test_a_table_of_properties_in_the_environment_is_json(monkeypatch):
    monkeypatch.setenv("RESONANCE_BROKER__LIBRDKAFKA", '{"sasl.username": "me", "sasl": {"password": "hush"}}')
    settings = Settings.load(flags={**MINIMAL, "broker.librdkafka.sasl.password": "other"})
    assert librdkafka(settings)["sasl.username"] == "me"
    assert librdkafka(settings)["sasl.password"] == "other"


def test_properties_that_a_client_must_have_are_those_that_librdkafka_knows():
    for name in OWNED:
        with pytest.raises((KafkaException, TypeError)) as raised:
            Producer({name: "?", "none": ""})
        assert f'No such configuration property: "{name}"' not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "servers"),
    [
        (" a:9092 ,b:9093, ,a:9092,", "a:9092,b:9093"),
        ("broker_1.example", "broker_1.example:9092"),
        ("[::1]:9093,[fe80::1]", "[::1]:9093,[fe80::1]:9092"),
        ("127.0.0.1:09092", "127.0.0.1:9092"),
    ],
)
def test_the_first_brokers_are_read_once(given, servers):
    settings = Settings.of({**MINIMAL, "broker.bootstrap": given})
    assert settings.broker.bootstrap == librdkafka(settings)["bootstrap.servers"] == servers


@pytest.mark.parametrize(
    "given", ["", " , ", "::1:9092", "a:b", "a:0", "a:65536", "a:9092;b:9092", "a:9092 b:9092", '"a:9092"', "u@a:9092"]
)
def test_first_brokers_that_are_none_are_refused_with_what_is_allowed(given):
    said = refusal({"broker.bootstrap": given})
    assert said.startswith(f"broker.bootstrap = {given!r}: must be host:port, several with commas between them")


@pytest.mark.parametrize("scheme", ["PLAINTEXT", "SASL_SSL", "kafka", "EXTERNAL"])
def test_a_protocol_before_the_first_brokers_is_refused_with_the_way_to_write_it(scheme):
    said = refusal({"broker.bootstrap": f"{scheme}://a:9092, {scheme}://[::1]:9093"})
    assert (
        "must be written as a:9092,[::1]:9093; the protocol before :// belongs in broker.librdkafka.security.protocol"
        in said
    )


TOKENS = "sasl.oauthbearer.token.endpoint.url"
NEEDED = ".*: must not be set: it is what delivery needs; leave it out"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("security.protocol", "TLS", r"'TLS': librdkafka refuses it \(Invalid value"),
        ("socket.timeout.ms", 1, r"'1': librdkafka refuses it \(.* outside allowed range 10"),
        *(("isolation.level", "read_uncommitted", NEEDED), ("topic.acks", "1", NEEDED), ("log_level", 7, NEEDED)),
        (TOKENS, "http://login.example/token", ".*: must begin with https://"),
        (TOKENS, "https://me:hunter2@login.example/token", r"'https://\*\*\*@.*: must hold no log-in"),
        ("session.timeout.ms", 9000, r".*: must not be set: it follows from broker\.session_timeout"),
    ],
)
def test_a_property_of_librdkafka_that_cannot_be_used_is_named_with_the_reason(name, value, expected):
    shown = re.escape(f"broker.librdkafka.{name.replace('_', '.')} = ")
    assert re.search(f"^{shown}{expected}", refusal({f"broker.librdkafka.{name}": value}))


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ("broker.sasl_password", "RESONANCE_BROKER__LIBRDKAFKA__SASL_PASSWORD (docs/security.md)"),
        ("broker.ssl_ca_location", "it is librdkafka's own: broker.librdkafka.ssl.ca.location, in the environment"),
        ("schema_registry.ssl_ca_location", "confluent-kafka's own: schema_registry.client.ssl.ca.location, in"),
        ("schema_registry.basic_auth_user", "it is schema_registry.client.basic.auth.user.info = user:password"),
        ("output.compression", "it is librdkafka's own: broker.librdkafka.compression.type"),
        ("topics.routes", "all topics are named by topics.pattern, by default {name}.{kind}"),
    ],
)
def test_what_is_set_elsewhere_names_the_place(setting, where):
    with pytest.raises(ConfigurationError, match=re.escape(f"{setting}: there is no such setting; ")) as raised:
        Settings.of({"input.topics": ["in"], setting: "hush"})
    assert where in str(raised.value)
    assert "hush" not in str(raised.value)


def test_secrets_are_never_shown():
    names = ("sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem", "sasl.oauthbearer.config")
    oauth = ("client.secret", "assertion.private.key.passphrase", "assertion.private.key.pem")
    given = dict.fromkeys((*names, *(f"sasl.oauthbearer.{name}" for name in oauth)), "hunter2")
    settings = Settings.of(
        {**MINIMAL, "broker": {"librdkafka": given, "bootstrap": "b"}, "worker.web_token": "hunter2"}
    )
    assert {name: librdkafka(settings)[name] for name in given} == given
    for text in (repr(settings), str(settings), str(settings.dump()), settings.model_dump_json()):
        assert "hunter2" not in text
    assert "**********" in str(settings.dump())
    assert "17" not in refusal({"worker.web_token": 17})


@pytest.mark.parametrize("text", ['{"librdkafka": {"sasl.password": "hunter2"}}', "hunter2"])
def test_a_section_that_is_no_table_is_refused_without_its_text(monkeypatch, text):
    monkeypatch.setenv("RESONANCE_BROKER", text)
    with pytest.raises(ConfigurationError) as caught:
        Settings.load(flags={**MINIMAL, "broker.bootstrap": "broker:9092"})
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("broker (from RESONANCE_BROKER): must be a table of settings")
    assert "hunter2" not in refusal({"broker": text})


@pytest.mark.parametrize("pairs", [["page.token=hunter2"] * 2, ["page.token hunter2"], ["page.token:hunter2"]])
def test_a_command_line_that_cannot_be_read_is_refused_without_its_values(pairs):
    with pytest.raises(ConfigurationError, match=r"^--set page\.token: ") as caught:
        given(pairs, {})
    assert "hunter2" not in str(caught.value)
