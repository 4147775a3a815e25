"""What the Schema Registry answers, and what its absence is called."""

import json
import ssl

import pytest
import trustme
from resonance.pipeline.config.sections import SchemaRegistrySection
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, RegistryError
from resonance.pipeline.registry import client
from resonance.pipeline.registry.client import SchemaRegistry, UnknownSchemaError, registry_of

from tests.schema_registry import running

AVRO = {"input.topics": ["readings"], "input.format": "avro"}


def at(registry, **given):
    own = {"max.retries": 0, "timeout": 0.5, **given}
    return SchemaRegistry(SchemaRegistrySection(url=registry.url, client=own))


def test_a_registry_that_does_not_know_an_id_is_there(registry):
    at(registry).check()
    with pytest.raises(UnknownSchemaError, match="does not have it"):
        at(registry).schema(5)


def test_an_unknown_id_is_asked_for_again_after_a_while(registry, monkeypatch):
    own = at(registry)
    now = [100.0]
    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])
    for _ in range(3):
        with pytest.raises(UnknownSchemaError):
            own.schema(1)
    assert len(registry.requests) == 1
    registry.add("string")
    now[0] += client.UNKNOWN_SECONDS + 0.1
    assert own.schema(1).schema_str == "string"


def test_references_come_behind_those_they_need(registry):
    def reference(name):
        return {"name": name, "subject": name, "version": 1}

    registry.add({"type": "fixed", "name": "a", "size": 1}, subject="a")
    registry.add({"type": "array", "items": "a"}, references=[reference("a")], subject="b")
    number = registry.add(["a", "b"], references=[reference("b"), reference("a")])
    own = at(registry)
    assert list(own.references(own.schema(number))) == ["a", "b"]
    lost = own.schema(registry.add("int", references=[reference("nowhere")]))
    with pytest.raises(UnknownSchemaError, match="version 1 of nowhere"):
        own.references(lost)


def test_references_in_a_circle_end(registry):
    circle = [{"name": name, "subject": name, "version": 1} for name in "ab"]
    registry.add("int", references=circle, subject="a")
    registry.add("long", references=circle, subject="b")
    own = at(registry)
    assert sorted(own.references(own.schema(1))) == ["a", "b"]


def test_what_is_no_registry_is_named(registry, monkeypatch):
    monkeypatch.setattr(registry, "answer", lambda *_: (404, {"detail": "Not Found"}))
    with pytest.raises(RegistryError, match="no registry at this path"):
        at(registry).check()
    monkeypatch.setattr(registry, "answer", lambda *_: (200, ["something", "else"]))
    with pytest.raises(RegistryError, match=r"does not answer.*schema_registry.url"):
        at(registry).check()


def test_tls_needs_the_authority():
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with running(context) as registry, authority.cert_pem.tempfile() as file:
        at(registry, **{"ssl.ca.location": file}).check()
        with pytest.raises(RegistryError, match=r"certificate verify failed.*schema_registry.client.ssl"):
            at(registry).check()
    with pytest.raises(ConfigurationError, match=r"no connection can be made.*nowhere.pem"):
        at(registry, **{"ssl.ca.location": "nowhere.pem"}).check()


@pytest.mark.parametrize("wrong", [{"max.retires": 3}, {"max.retries": "often"}, {"basic.auth.user.info": "me"}])
def test_what_the_client_does_not_take_is_named(registry, wrong):
    with pytest.raises(ConfigurationError, match=r"\[schema_registry.client\]: no connection can be made") as raised:
        at(registry, **wrong).check()
    assert next(iter(wrong)) in str(raised.value)


def test_one_process_has_one_connection():
    sections = [SchemaRegistrySection(url="http://127.0.0.1:1") for _ in range(2)]
    assert registry_of(sections[0]) is registry_of(sections[1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["input.format", "avro", "schema_registry.url", "readings"]),
        ({"url": "registry:8081"}, ["schema_registry.url", "registry:8081", "https://registry.example:8081"]),
        ({"url": "http://me:secret@registry"}, ["schema_registry.url", "http://***@registry", "basic.auth.user.info"]),
        ({"client.url": "http://other"}, ["schema_registry.client.url", "must not be set: it is schema_registry.url"]),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given, words):
    url = {"schema_registry.url": "http://registry"} if given else {}
    with pytest.raises(ConfigurationError) as refused:
        Settings.of({**AVRO, **url, **{f"schema_registry.{name}": value for name, value in given.items()}})
    text = str(refused.value)
    assert [word for word in words if word not in text] == []
    assert "secret" not in text


def test_the_password_is_never_shown():
    given = {"url": "http://registry", "client.basic.auth.user.info": "me:se:cret"}
    settings = Settings.of({**AVRO, **{f"schema_registry.{name}": value for name, value in given.items()}})
    assert "se:cret" not in json.dumps(settings.dump()) + repr(settings)
