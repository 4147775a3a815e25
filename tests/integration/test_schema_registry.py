"""Avro records on a real Kafka: a worker, and every command that decodes, ask the Schema Registry."""

import json

import pytest

from tests.brokers import produce
from tests.integration.workers import Deployment, wait_until
from tests.pipeline.commands import run
from tests.schema_registry import running

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "x", "type": "double"},
        {
            "name": "geo",
            "type": {"type": "record", "name": "Geo", "fields": [{"name": "lat", "type": ["null", "float"]}]},
        },
    ],
}
BAD = {50: b"no frame", 120: b"\0\0\0\0\x01", 121: b"\0\0\0\x03\xe7rest"}
"""Values that are no use, by their place."""


@pytest.fixture
def registry():
    with running() as own:
        own.login = ("resonance", "se:cret")
        yield own


def values(registry, first, count):
    login, registry.login = registry.login, None
    objects = [
        {"id": f"r{n}", "at": 1_700_000_000_000 + n, "x": n % 3 * 10 + n % 10 / 10, "geo": {"lat": n % 3 + n % 7 / 70}}
        for n in range(first, first + count)
    ]
    found = registry.avro(SCHEMA, *objects)
    registry.login = login
    return [BAD.get(n, value) for n, value in enumerate(found, first)]


LOGIN = "RESONANCE_SCHEMA_REGISTRY__CLIENT__BASIC_AUTH_USER_INFO"


def deployed(broker, registry, **more):
    settings = {
        **{"input.format": "avro", "input.features": "x,geo.lat", "input.id_path": "id", "input.time_path": "at"},
        **{"schema_registry.url": registry.url},
        **more,
    }
    deployment = Deployment(broker, partitions=1, settings=settings)
    return deployment, {LOGIN: ":".join(registry.login)}


def test_what_a_worker_wrote_is_what_every_command_learns_again(broker, registry, monkeypatch, capsys):
    deployment, secrets = deployed(broker, registry)
    produce(broker, deployment.input, [(0, b"k", value) for value in values(registry, 0, 600)])
    with deployment.worker(environment=secrets) as worker:
        worker.wait_for(lambda health: health["records"] == 600)
        assert worker.terminate() == 0
    answers = deployment.payloads()
    assert len(answers) == 600 - len(BAD)
    assert (answers[7]["id"], answers[7]["time"]) == ("r7", "2023-11-14T22:13:20.007Z")

    for name, value in secrets.items():
        monkeypatch.setenv(name, value)

    def output(*arguments, **changed):
        given = {**deployment.settings, **changed}
        options = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
        assert run(monkeypatch, *arguments, *options) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    verdict = output("verify", "--json")
    assert (verdict["identical"], verdict["assignments"], verdict["dead_letters"]) == (True, 597, 3)
    listed = output("dlq", "list", "--json")
    assert {(each["stage"], each["class"]) for each in listed["classes"]} == {
        *(("decode", "not_framed"), ("decode", "schema_violation"), ("decode", "unknown_schema"))
    }
    clusters = output("inspect", "--stream", "p0", "--json")["clusters"]
    (shown, *_) = output("inspect", clusters[0]["id"], "--records", "--json")
    assert shown["value"].keys() == {"id", "at", "x", "geo"}
    assert output("replay", deployment.input, "--json")["records"] == 600
    assert output("evaluate", deployment.input, "--json")
    assert f"{deployment.name}.alerts-value" in output("topics", "create", "--register-schemas", "--json")["schemas"]
    assert output("bootstrap", deployment.input, "--json", name=f"{deployment.name}-new")


def test_a_worker_waits_for_the_registry_then_stops_and_continues_where_it_was(broker, registry):
    deployment, secrets = deployed(broker, registry)
    produce(broker, deployment.input, [(0, b"k", value) for value in values(registry, 0, 200)])
    with deployment.worker(environment=secrets) as worker:
        # Learned is not yet committed: what stops before it commits answers later.
        wait_until(lambda: len(deployment.answers()) == 197)
        registry.failing = 503
        # A schema that the worker does not know yet.
        new = registry.add({**SCHEMA, "doc": "another"}).to_bytes(4, "big")
        late = [value[:1] + new + value[5:] for value in values_of(registry, 200, 100)]
        produce(broker, deployment.input, [(0, b"k", value) for value in late])
        line = worker.last_line(69)
    assert registry.url in line
    assert "the schema registry" in line
    assert "503" in line
    assert len(deployment.answers()) == 197
    with deployment.worker(environment=secrets) as worker:
        assert "the schema registry" in worker.last_line(69)
    registry.failing = None
    with deployment.worker(environment=secrets) as worker:
        worker.ready()
        wait_until(lambda: len(deployment.answers()) == 297)
        assert worker.terminate() == 0
    assert deployment.answers() == sorted(set(deployment.answers()))


def values_of(registry, first, count):
    failing, registry.failing = registry.failing, None
    try:
        return values(registry, first, count)
    finally:
        registry.failing = failing


def test_a_wrong_password_stops_the_start(broker, registry):
    deployment, _ = deployed(broker, registry)
    with deployment.worker(environment={LOGIN: f"{registry.login[0]}:wrong"}) as worker:
        line = worker.last_line(69)
    assert "refuses the log-in" in line
    assert LOGIN in line
