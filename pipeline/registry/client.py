"""Ask the Schema Registry, by the client of confluent-kafka.

An answer that there is no such schema is a fact about a record. No answer, or any other one, is a fault of the
registry, the network or the settings: the client repeats the question, and then a `RegistryError` ends the process.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import SecretStr
from resonance.pipeline.config.sections import SchemaRegistrySection
from resonance.pipeline.errors import ConfigurationError, RegistryError, missing_extra

EXTRA: Final = "registry"
"""The extra with what reads and checks values with schemas."""

REQUEST_SECONDS: Final = 4.0
"""How long a request waits."""

REQUESTS: Final = 4
"""Requests until a registry is given up, over all addresses: a worker that waits for a minute counts as hanging."""

GIVEN_UP_SECONDS: Final = REQUESTS * REQUEST_SECONDS + 7.0
"""After how long a registry is given up, with the client's pauses of 1, 2 and 4 seconds between requests."""

UNKNOWN_SECONDS: Final = 1.0
"""How long the answer that an id is unknown counts, so that many records with it cost one question."""

UNKNOWN_IDS: Final = 10_000
"""Most unknown ids that are remembered."""

REFERENCES: Final = 100
"""Most schemas that a schema may refer to, directly or not."""

_CODES: Final = {40401, 40402, 40403}
"""The registry's own codes of an answer that a subject, a version or a schema does not exist."""

_log = logging.getLogger(__name__)

Found = TypeVar("Found")


class UnknownSchemaError(Exception):
    """The registry answered that it has no such schema, or one that it refers to."""


class SchemaRegistry:
    """Schemas by their ids; an id never changes its meaning, so the callers keep what they made of a schema."""

    def __init__(self, section: SchemaRegistrySection, form: str | None = None) -> None:
        self._section = section
        # The client keeps what it was answered by the id alone: one of it knows one form.
        self._form = form
        self._lock = threading.Lock()
        self._client: Any = None
        self._unknown: dict[int, float] = {}

    def schema(self, number: int) -> Any:
        """Return the schema with an id, confluent-kafka's `Schema`.

        Raises `UnknownSchemaError` where the registry answers that it has none, `RegistryError` where it does not
        answer.
        """
        since = self._unknown.get(number)
        if since is None or time.monotonic() - since > UNKNOWN_SECONDS:
            try:
                return self._answer(lambda client: client.get_schema(number, fmt=self._form))
            except UnknownSchemaError:
                if len(self._unknown) >= UNKNOWN_IDS:
                    self._unknown.clear()
                self._unknown[number] = time.monotonic()
        raise UnknownSchemaError("the registry answers that it does not have it")

    def references(self, schema: Any) -> dict[str, Any]:
        """Return all schemas that a schema refers to, directly or not, by their names, each behind those it needs."""
        found: dict[str, Any] = {}

        def add(references: Any) -> None:
            for reference in references or ():
                if reference.name in found:
                    continue
                if len(found) >= REFERENCES:
                    raise UnknownSchemaError(f"it refers to more than {REFERENCES} others")
                # Its place is behind those that it refers to; a circle ends here.
                found[reference.name] = None
                own = self._version(reference)
                add(own.references)
                del found[reference.name]
                found[reference.name] = own

        add(schema.references)
        return found

    def _version(self, reference: Any) -> Any:
        subject, version = reference.subject, reference.version
        try:
            return self._answer(lambda client: client.get_version(subject, version, True, self._form)).schema
        except UnknownSchemaError:
            raise UnknownSchemaError(
                f"it refers to version {version} of {subject}, which the registry does not have"
            ) from None

    def register(self, subject: str, text: str) -> int:
        """Register a JSON Schema under a subject, unless it is there, and return its id."""
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415

        number: int = self._answer(lambda client: client.register_schema(subject, Schema(text, "JSON")))
        return number

    def check(self) -> None:
        """Raise `RegistryError` where the registry does not answer as one, or refuses the log-in."""
        # No registry gives this id away, so that the answer of each is that it does not know it.
        with suppress(UnknownSchemaError):
            self._answer(lambda client: client.get_schema(0))

    def _answer(self, question: Callable[[Any], Found]) -> Found:
        """Return what the registry answers."""
        client = self._connected()
        from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415

        where = self._section.url
        try:
            return question(client)
        except SchemaRegistryError as error:
            status, code, text = error.http_status_code, error.error_code, error.error_message
            if status == 404 and code in _CODES:
                raise UnknownSchemaError(text) from None
            raise RegistryError(f"the schema registry {where} {_refusal(status, code, text)}") from error
        except MemoryError:
            raise
        except Exception as error:  # whatever a connection, a proxy or a wrong server makes of it
            reason = str(error) or type(error).__name__
            raise RegistryError(
                f"the schema registry {where} does not answer ({reason[:300]}), and nothing was decoded without it; "
                "check schema_registry.url, schema_registry.client.ssl.* and that it runs, then start again"
            ) from error

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _connect(self._section)
            return self._client


def _connect(section: SchemaRegistrySection) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("schema_registry.url", error.name or "confluent-kafka[schemaregistry]", EXTRA) from error
    given = {name: _plain(name, value) for name, value in section.client.items()}
    try:
        return SchemaRegistryClient({"url": ",".join(section.urls), **_waits(len(section.urls)), **given})
    except (OSError, TypeError, ValueError) as error:
        files = [str(value) for name, value in given.items() if name.endswith(".location")]
        raise ConfigurationError(
            f"[schema_registry.client]: no connection can be made with these settings ({error}); look at "
            f"{', '.join(files) or 'schema_registry.url'}"
        ) from error


def _waits(addresses: int) -> dict[str, float]:
    """Return for how long and how often the client sends a request to each address."""
    return {"timeout": REQUEST_SECONDS, "max.retries": max(REQUESTS // addresses - 1, 0)}


def _plain(name: str, value: str | SecretStr) -> str | float:
    """Return a property as the client takes it, which refuses the texts of numbers where it wants them."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if name.startswith(("cache.", "max.", "retries.", "timeout")):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(text)
    return text


def _refusal(status: int, code: int, text: str | None) -> str:
    """Return in words what an answer means that is not about a schema, and what to do."""
    said = f"{status}: {str(text)[:300]}"
    if status == 401:
        return (
            f"refuses the log-in ({said}); check schema_registry.client.basic.auth.user.info "
            "(RESONANCE_SCHEMA_REGISTRY__CLIENT__BASIC_AUTH_USER_INFO)"
        )
    if status == 403:
        return f"gives the user of schema_registry.client.basic.auth.user.info no right to this ({said}); grant it"
    if status == 404:
        return f"has no registry at this path ({said}); check schema_registry.url"
    if status in (409, 422):
        return f"does not take the schema ({said}); see the compatibility of the subject"
    return f"fails (code {code}, {said}); look at it, then start again"


@cache
def registry_of(section: SchemaRegistrySection, form: str | None = None) -> SchemaRegistry:
    """Return the registry of some settings, one for the whole process.

    `form` is the one in which it gives schemas, as its interface calls it.
    """
    return SchemaRegistry(section, form)
