"""The broker settings in the terms of the two client libraries."""

import ssl
from typing import Any

import faust
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.tokens import OAuthTokens


def librdkafka(settings: Settings) -> dict[str, Any]:
    """Return what every confluent-kafka client of the deployment needs."""
    broker = settings.broker
    values = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": f"{settings.name}-{settings.worker_id}",
        "security.protocol": broker.security_protocol,
        "sasl.mechanism": broker.sasl_mechanism,
        "sasl.username": broker.sasl_username,
        "sasl.password": broker.sasl_password and broker.sasl_password.get_secret_value(),
        **(_oauthbearer(settings) if broker.sasl_mechanism == "OAUTHBEARER" else {}),
        "ssl.ca.location": broker.ssl_ca_location,
        "ssl.certificate.location": broker.ssl_certificate_location,
        "ssl.key.location": broker.ssl_key_location,
        "ssl.key.password": broker.ssl_key_password and broker.ssl_key_password.get_secret_value(),
    }
    return {name: value for name, value in values.items() if value is not None}


def _oauthbearer(settings: Settings) -> dict[str, Any]:
    """Return what librdkafka needs to fetch tokens by itself."""
    broker = settings.broker
    secret = broker.sasl_oauthbearer_client_secret
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": broker.sasl_oauthbearer_token_endpoint_url,
        "sasl.oauthbearer.client.id": broker.sasl_oauthbearer_client_id,
        "sasl.oauthbearer.client.secret": secret and secret.get_secret_value(),
        "sasl.oauthbearer.scope": broker.sasl_oauthbearer_scope,
        "https.ca.location": broker.https_ca_location,
    }


def faust_brokers(settings: Settings) -> list[str]:
    """Return the bootstrap brokers as Faust's URLs."""
    return [f"kafka://{server}" for server in settings.broker.bootstrap.split(",")]


def faust_credentials(settings: Settings) -> Any:
    """Return Faust's credentials, None for a broker that requires none.

    Raises `ConfigurationError` where a certificate or key file cannot be used.
    """
    broker = settings.broker
    context = _ssl_context(settings) if broker.security_protocol.endswith("SSL") else None
    if broker.security_protocol.startswith("SASL") and broker.sasl_mechanism == "OAUTHBEARER":
        return faust.OAuthCredentials(oauth_cb=_tokens(settings), ssl_context=context)
    if broker.security_protocol.startswith("SASL"):
        password = broker.sasl_password.get_secret_value() if broker.sasl_password else None
        return faust.SASLCredentials(
            username=broker.sasl_username, password=password, mechanism=broker.sasl_mechanism, ssl_context=context
        )
    # Without a context of its own Faust makes one for servers, and fails.
    return faust.SSLCredentials(context=context) if context else None


def _tokens(settings: Settings) -> OAuthTokens:
    broker = settings.broker
    secret = broker.sasl_oauthbearer_client_secret
    try:
        return OAuthTokens(
            broker.sasl_oauthbearer_token_endpoint_url or "",
            broker.sasl_oauthbearer_client_id or "",
            secret.get_secret_value() if secret else "",
            scope=broker.sasl_oauthbearer_scope or "",
            context=ssl.create_default_context(cafile=broker.https_ca_location),
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"broker.https_ca_location = {broker.https_ca_location}: the certificates cannot be used ({error}); name a "
            "PEM file with those of the authority behind broker.sasl_oauthbearer_token_endpoint_url"
        ) from error


def _ssl_context(settings: Settings) -> ssl.SSLContext:
    broker = settings.broker
    try:
        context = ssl.create_default_context(cafile=broker.ssl_ca_location)
        if broker.ssl_certificate_location:
            # Without a password OpenSSL prompts for one at the terminal.
            password = broker.ssl_key_password.get_secret_value() if broker.ssl_key_password else ""
            context.load_cert_chain(broker.ssl_certificate_location, broker.ssl_key_location, password)
    except (OSError, ssl.SSLError) as error:
        files = [broker.ssl_ca_location, broker.ssl_certificate_location, broker.ssl_key_location]
        raise ConfigurationError(
            f"broker.ssl_*: the certificates cannot be used ({error}); look at {', '.join(filter(None, files))}"
        ) from error
    return context
