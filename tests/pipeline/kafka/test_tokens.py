"""Tokens for the log-in of aiokafka: fetched with the client's secret, shared, and fetched anew before they end."""

import asyncio
import ssl

import pytest
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka import tokens
from resonance.pipeline.kafka.clients import faust_credentials, librdkafka
from resonance.pipeline.kafka.errors import login_refused
from resonance.pipeline.kafka.tokens import OAuthTokens

from tests import token_server
from tests.brokers.jvm import free_port

SECRET = "s3cret: %&ü"  # noqa: S105 - of a provider that lives for a test


@pytest.fixture
def provider():
    with token_server.running("shop", SECRET) as running:
        yield running


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def tokens_of(provider, secret=SECRET, clock=None, **more):
    return OAuthTokens(
        provider.url, "shop", secret, context=ssl.create_default_context(), clock=clock or Clock(), **more
    )


def test_connections_share_a_token(provider):
    made = tokens_of(provider, scope="kafka read")

    async def several():
        return await asyncio.gather(*(made.token() for _ in range(5)))

    found = asyncio.run(several()) + asyncio.run(several())
    assert len(set(found)) == 1
    form = {"grant_type": "client_credentials", "scope": "kafka read"}
    assert provider.requests == [("/token", f"shop:{SECRET}", form)]


def test_a_token_is_fetched_anew_before_it_ends(provider):
    clock = Clock()
    made = tokens_of(provider, clock=clock)
    first = asyncio.run(made.token())
    clock.now = tokens.USED * provider.seconds - 1
    assert asyncio.run(made.token()) == first
    clock.now += 2
    assert asyncio.run(made.token()) != first


def test_a_token_of_unknown_life_is_used_once(provider):
    provider.answer = 200, {"access_token": "t"}
    made = tokens_of(provider)
    assert [asyncio.run(made.token()) for _ in range(2)] == ["t", "t"]
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((401, {"error": "invalid_client", "error_description": "no"}), SaslAuthenticationFailed, "invalid_client: no"),
        ((200, {"access_token": 3}), SaslAuthenticationFailed, "no access_token in it"),
        ((200, b"<html>"), SaslAuthenticationFailed, "no access_token in it"),
        ((200, b"[]"), SaslAuthenticationFailed, "no access_token in it"),
        ((307, {}), SaslAuthenticationFailed, "HTTP status 307"),
        ((503, {}), KafkaConnectionError, "HTTP status 503"),
    ],
)
def test_a_provider_that_gives_no_token_is_described(provider, answer, kind, text):
    provider.answer = answer
    with pytest.raises(kind, match=f"{provider.url} gives no token.*{text}") as caught:
        asyncio.run(tokens_of(provider).token())
    assert SECRET not in str(caught.value)
    assert [path for path, _, _ in provider.requests] == ["/token"], "the secret follows no redirect"


def test_a_provider_that_is_away_is_tried_again(provider):
    provider.url = f"http://127.0.0.1:{free_port()}/token"
    with pytest.raises(KafkaConnectionError, match="gives no token"):
        asyncio.run(tokens_of(provider).token())


def test_a_proxy_of_the_environment_is_used(provider, monkeypatch):
    monkeypatch.setenv("http_proxy", provider.url.removesuffix("/token"))
    monkeypatch.delenv("no_proxy", raising=False)
    provider.url = "http://login.example/token"
    assert asyncio.run(tokens_of(provider).token())
    assert [path for path, _, _ in provider.requests] == ["http://login.example/token"]


def settings(**more):
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    login = {"token_endpoint_url": "http://localhost/token", "client_id": "shop", "client_secret": SECRET}
    given |= {f"sasl_oauthbearer_{name}": value for name, value in login.items()} | more
    return Settings.of({"input.topics": ["in"], **{f"broker.{name}": value for name, value in given.items()}})


def test_both_client_libraries_get_the_same_log_in():
    made = librdkafka(settings(sasl_oauthbearer_scope="kafka", https_ca_location="/ca.pem"))
    assert {name: value for name, value in made.items() if name.startswith(("sasl", "https"))} == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://localhost/token",
        "sasl.oauthbearer.client.id": "shop",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "https.ca.location": "/ca.pem",
    }
    assert isinstance(faust_credentials(settings()).oauth_cb, OAuthTokens)
    with pytest.raises(ConfigurationError, match=r"^broker\.https_ca_location = /ca\.pem: .*; name a PEM file"):
        faust_credentials(settings(https_ca_location="/ca.pem"))


def test_the_secret_is_shown_nowhere():
    given = settings()
    assert SECRET not in str(given.dump())
    assert SECRET not in repr(given)
    assert SECRET not in repr(faust_credentials(given))
    text = str(login_refused(librdkafka(given), "no such client"))
    assert SECRET not in text
    assert text.startswith(
        "localhost:9092 or the provider of tokens refuses the log-in of client shop with OAUTHBEARER"
    )
    assert "broker.sasl_oauthbearer_*" in text
