"""The broker settings in the terms of librdkafka."""

import ssl
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError


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


def check_certificates(settings: Settings) -> None:
    """Raise `ConfigurationError` where a certificate or key file cannot be used; librdkafka names none of them."""
    broker = settings.broker
    try:
        ssl.create_default_context(cafile=broker.https_ca_location)
        context = ssl.create_default_context(cafile=broker.ssl_ca_location)
        if broker.ssl_certificate_location:
            # Without a password OpenSSL prompts for one at the terminal.
            password = broker.ssl_key_password.get_secret_value() if broker.ssl_key_password else ""
            context.load_cert_chain(broker.ssl_certificate_location, broker.ssl_key_location, password)
    except (OSError, ssl.SSLError) as error:
        files = [
            broker.ssl_ca_location,
            broker.ssl_certificate_location,
            broker.ssl_key_location,
            broker.https_ca_location,
        ]
        raise ConfigurationError(
            f"broker.ssl_*, broker.https_*: the certificates cannot be used ({error}); look at "
            f"{', '.join(filter(None, files))}"
        ) from error
