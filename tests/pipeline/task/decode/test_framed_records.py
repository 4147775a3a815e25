"""Records whose values have a schema become what the same members in JSON become, or say why not."""

from decimal import Decimal

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, RegistryError
from resonance.pipeline.files.arrays import encoder
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Record
from resonance.pipeline.registry import client
from resonance.pipeline.task.decode.mapping import make_mapping

from tests import LONG
from tests.pipeline import streams
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import STAMP, TOPIC, alike, payloads, points
from tests.pipeline.task.decode.test_avro_values import record
from tests.pipeline.task.decode.test_protobuf_values import READINGS, message_class
from tests.schema_registry import running, serialized

SCHEMA = record(
    ("id", "string"),
    ("cpu", "double"),
    ("latency_ms", ["null", "double"]),
    ("net", record(("in", "double"), name="Net")),
    ("t", {"type": "long", "logicalType": "timestamp-millis"}),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}),
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """A registry that does not answer is given up soon."""
    monkeypatch.setattr(client, "_waits", lambda _: {"timeout": 0.3, "max.retries": 1, "retries.wait.ms": 1})


def given_settings(registry, form="avro", **changes):
    own = {"input__format": form, "schema_registry__url": registry.url, "input__id_path": "id", "input__time_path": "t"}
    return streams.settings(**{**own, **changes})


def reading(row, i=0, **changes):
    cpu, latency, inward = map(float, row)
    own = {"id": f"r{i}", "cpu": cpu, "latency_ms": latency, "net": {"in": inward}, "t": STAMP + i, "kind": "a"}
    return own | changes


def log_of(values):
    return [Record(TOPIC, 0, i, STAMP, b"k", value) for i, value in enumerate(values)]


def decoded(own, values):
    found = make_mapping(own).decode(log_of(values))
    return found, [(fault.index, fault.stage, fault.kind) for fault in found.faults]


def framed(number, content):
    return b"\0" + number.to_bytes(4, "big") + content


def as_json_schema(registry, objects):
    number = registry.add({"type": "object", "required": ["id"]}, "JSON")
    return [framed(number, orjson.dumps(each)) for each in objects]


def test_rows_ids_times_and_copies_are_those_of_json(registry):
    objects = [reading(row, i, kind="ab"[i % 2]) for i, row in enumerate(points(300).tolist())]
    same = {"output__include": ["kind", "net"], "input__features": ["cpu", "latency_ms", "net.in", "kind"]}
    same["prepare__categories"] = {"kind": ["a", "b"]}
    in_json = make_mapping(streams.settings(**{"input__id_path": "id", "input__time_path": "t"}, **same))
    wanted = in_json.decode(log_of(map(orjson.dumps, objects)))
    for form, values in (("avro", registry.avro(SCHEMA, *objects)), ("json_schema", as_json_schema(registry, objects))):
        found, faults = decoded(given_settings(registry, form, **same), values)
        assert np.array_equal(found.rows, wanted.rows)
        assert (found.ids, found.times, found.included) == (wanted.ids, wanted.times, wanted.included)
        assert (found.index, found.sizes, faults) == (wanted.index, list(map(len, values)), [])


@pytest.mark.parametrize("count", [1, 20])
def test_numbers_that_are_passed_through_keep_their_digits(registry, count):
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 0}
    schema = record(("id", decimal), ("x", "double"), ("net", record(("n", decimal), name="Net")))
    own = {"output__include": ["id", "net"], "input__features": ["x"], "input__time_path": None}
    long = 12345678901234567890123
    values = registry.avro(
        schema, *[{"id": Decimal(long + n), "x": 1.5, "net": {"n": Decimal(n)}} for n in range(count)]
    )
    number = registry.add({"type": "object", "required": ["id"]}, "JSON")
    in_json = [framed(number, b'{"id":%d,"x":1.5,"net":{"n":%d}}' % (long + n, n)) for n in range(count)]
    for form, those in (("avro", values), ("json_schema", in_json)):
        found, faults = decoded(given_settings(registry, form, **own), those)
        assert (found.ids, faults) == ([b"%d" % (long + n) for n in range(count)], [])
        assert found.included == [f'{{"id":{long + n},"net":{{"n":{n}}}}}' for n in range(count)]


def test_protobuf_messages_are_records_wherever_they_stand_in_their_file(registry):
    number = registry.add(serialized(READINGS), "PROTOBUF")
    first, second = message_class(READINGS, "shop.Reading"), message_class(READINGS, "shop.Geo")
    message = first(id="k", x=1.5, vector=[1, 2], kind=3)
    message.t.FromMilliseconds(STAMP)
    own = {"input__features": ["x", "kind", "maybe"], "prepare__categories": {"kind": ["SALE"]}}
    settings_of = given_settings(registry, "protobuf", prepare__missing="mean", **own)
    found, faults = decoded(settings_of, [framed(number, b"\0" + message.SerializeToString())] * 2)
    assert np.array_equal(found.rows, [[1.5, 0.0, np.nan]] * 2, equal_nan=True)
    assert (found.ids, found.times, faults) == ([b'"k"'] * 2, ["2023-11-14T22:13:20.000Z"] * 2, [])
    vectors = given_settings(registry, "protobuf", input__features="vector", input__dimension=2)
    assert decoded(vectors, [framed(number, b"\0" + message.SerializeToString())])[0].rows.tolist() == [[1.0, 2.0]]
    place = [framed(number, b"\x02\x02" + second(lat=own).SerializeToString()) for own in (1.0, 2.0)]
    nowhere = [framed(number, b"\x02\x08"), framed(number, b"\x02"), framed(number, b"\x80")]
    located = given_settings(registry, "protobuf", input__features=["lat"], input__time_path=None)
    found, faults = decoded(located, [*place, *nowhere])
    assert found.rows.tolist() == [[1.0], [2.0]]
    assert [kind for *_, kind in faults] == ["wrong_schema", "not_framed", "not_framed"]


def test_a_schema_is_asked_for_once_and_batches_may_have_several(registry):
    more = record(*((field["name"], field["type"]) for field in SCHEMA["fields"]), ("new", "int"))
    rows = points(200).tolist()
    old = registry.avro(SCHEMA, *(reading(row, i) for i, row in enumerate(rows)))
    new = registry.avro(more, *(reading(row, i, new=1) for i, row in enumerate(rows)))
    mixed = [value for both in zip(old, new, strict=True) for value in both]
    registry.requests.clear()
    own = given_settings(registry)
    for _ in range(3):
        found, faults = decoded(own, mixed)
        assert np.array_equal(found.rows, np.repeat(rows, 2, axis=0))
        assert faults == []
    assert registry.requests == ["GET /schemas/ids/1", "GET /schemas/ids/2"]


def test_one_record_that_is_no_use_costs_no_other(registry):
    good = registry.avro(SCHEMA, *(reading(row, i) for i, row in enumerate(points(180).tolist())))
    other = registry.add("string", "JSON")
    string = registry.avro({"type": "string"}, "text", topic="texts")
    odd = {
        b"": "not_framed",
        b'{"id": 1}': "not_framed",
        good[0][:4]: "not_framed",
        good[0][:5]: "schema_violation",
        good[0][:-1]: "schema_violation",
        good[0] + b"\0": "schema_violation",
        framed(4_000_000_000, b"x"): "unknown_schema",
        framed(other, b'"text"'): "wrong_schema",
        string[0]: "not_an_object",
        b"x" * 4_000: "record_too_large",
        registry.avro(SCHEMA, reading([1, 2, np.inf]))[0]: "out_of_range",
        registry.avro(SCHEMA, reading([np.nan, 2, 1]))[0]: "missing_feature",
        registry.avro(SCHEMA, reading([1, 2, 3], t=10**17))[0]: "bad_time",
    }
    own = given_settings(registry, limits__record_bytes=1_000)
    found, faults = decoded(own, [*good[:90], *odd, *good[90:], None])
    assert [kind for *_, kind in faults] == list(odd.values())
    assert (len(found), found.skipped, [index for index, *_ in faults]) == (180, 1, list(range(90, 90 + len(odd))))


def test_null_and_not_a_number_are_missing(registry):
    values = registry.avro(SCHEMA, reading([1, 2, 3], latency_ms=None), reading([np.nan, 2, 3]), reading([1, 2, 3]))
    assert [kind for *_, kind in decoded(given_settings(registry), values)[1]] == ["missing_feature"] * 2
    found, faults = decoded(given_settings(registry, prepare__missing="mean"), values)
    assert np.isnan(found.rows).tolist() == [[False, True, False], [True, False, False], [False] * 3]
    assert faults == []


def test_sparse_records_and_streams_of_a_member(registry):
    words = record(("id", "string"), ("words", {"type": "map", "values": "float"}))
    values = registry.avro(words, {"id": "a", "words": {"oil": 0.5}}, {"id": "b", "words": {"oil": np.nan}})
    given = {"engine.name": "sa_art", "stream": "topic", "input.sparse": "words", "input.topics": [TOPIC]}
    given |= {"input.format": "avro", "schema_registry.url": registry.url}
    found, faults = decoded(Settings.of(given), values)
    assert (found.rows.names, faults) == (["oil"], [(1, "decode", "out_of_range")])


class TestARegistryThatDoesNotAnswerIsNoFaultOfARecord:
    @pytest.mark.parametrize(
        ("broken", "words"),
        [
            ({"failing": 500}, ["fails", "500", "start again"]),
            ({"failing": 503}, ["fails", "503"]),
            ({"failing": 404}, ["no registry at this path", "schema_registry.url"]),
            ({"failing": 403}, ["no right", "schema_registry.client.basic.auth.user.info"]),
            ({"login": ("me", "secret")}, ["refuses the log-in", "schema_registry.client.basic.auth.user.info"]),
            ({"slow": 1.0}, ["does not answer", "schema_registry.url"]),
        ],
    )
    def test_it_ends_the_process_after_repeats(self, registry, broken, words):
        values = registry.avro(SCHEMA, reading([1, 2, 3]))
        for name, value in broken.items():
            setattr(registry, name, value)
        mapping = make_mapping(given_settings(registry))
        with pytest.raises(RegistryError) as ended:
            mapping.decode(log_of(values))
        assert [word for word in words if word not in str(ended.value)] == []
        assert ended.value.exit_code == 69
        # What was not answered is nothing to remember.
        registry.failing, registry.login, registry.slow = None, None, 0.0
        assert len(mapping.decode(log_of(values))) == 1

    def test_it_may_come_back_during_the_repeats(self, registry, monkeypatch):
        values = registry.avro(SCHEMA, reading([1, 2, 3]))
        answer, failures = registry.answer, [503]

        def failing_once(*request):
            return (failures.pop(), {}) if failures else answer(*request)

        monkeypatch.setattr(registry, "answer", failing_once)
        assert len(make_mapping(given_settings(registry)).decode(log_of(values))) == 1

    def test_it_may_be_gone(self):
        with running() as registry:
            values = registry.avro(SCHEMA, reading([1, 2, 3]))
        with pytest.raises(RegistryError, match="does not answer"):
            make_mapping(given_settings(registry)).decode(log_of(values))

    def test_the_log_in_opens_it(self, registry):
        values = registry.avro(SCHEMA, reading([1, 2, 3]))
        registry.login = ("me", "se:cret")
        who = {"schema_registry__client__basic.auth.user.info": "me:se:cret"}
        assert len(make_mapping(given_settings(registry, **who)).decode(log_of(values))) == 1


def test_many_records_with_an_unknown_schema_cost_one_question(registry):
    number = len(registry.schemas) + 77
    found, faults = decoded(given_settings(registry), [framed(number, b"xx")] * 300)
    assert (len(found), {kind for *_, kind in faults}) == (0, {"unknown_schema"})
    assert len(registry.requests) == 1


@pytest.mark.parametrize("routes", [0, 2])
def test_what_was_recorded_is_what_a_replay_gives(monkeypatch, registry, routes):
    own = {"input__format": "avro", "schema_registry__url": registry.url}
    deployment = MemoryDeployment(monkeypatch, routes=routes, **own)
    countries = record(*((field["name"], field["type"]) for field in SCHEMA["fields"]), ("country", "string"))
    for (topic, _), log in deployment.logs.items():
        if topic != TOPIC:
            continue
        for i, old in enumerate(log):
            given = orjson.loads(old.value)
            full = reading([given["cpu"], given["latency_ms"], given["net"]["in"]], i)
            (value,) = registry.avro(countries, {**full, "country": given.get("country", "DE")})
            log[i] = old._replace(value=value if i % 100 else value[:-1])
    if routes:
        deployment.turn(0.5)
        deployment.turn()
    else:
        deployment.work(300, archive=True)
        deployment.work(600)
    verdict = deployment.verify()
    assert verdict.identical
    assert (verdict.total("assignments"), verdict.total("dead_letters")) == (594, 6)


def test_the_format_is_part_of_what_models_follow_from(registry):
    own = given_settings(registry)
    identity = DeploymentContext.of(own, {}, Deployment(1, {TOPIC: "id"})).identities[TOPIC]
    assert identity.limits["input.format"] == "avro"
    assert settings_then(own, identity).schema_registry == own.schema_registry


def test_rows_of_a_file_have_no_schema(registry, tmp_path):
    with pytest.raises(ConfigurationError, match=r"rows without a schema.*--input.format json"):
        encoder(given_settings(registry), tmp_path)


def test_a_library_that_is_not_installed_is_named_with_its_extra(registry, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    monkeypatch.delitem(__import__("sys").modules, "resonance.pipeline.task.decode.avro_values", raising=False)
    with pytest.raises(ConfigurationError, match=r"input.format = avro needs fastavro.*\[registry\]"):
        make_mapping(given_settings(registry, schema_registry__client__cache__capacity=7))


@pytest.fixture(scope="module")
def mappings():
    with running() as registry:
        registry.add(SCHEMA)
        registry.add({"type": "object"}, "JSON")
        registry.add(serialized(READINGS), "PROTOBUF")
        yield [
            make_mapping(given_settings(registry, form, input__features=features))
            for form, features in (("avro", ["cpu"]), ("json_schema", ["cpu"]), ("protobuf", ["x"]))
        ]


@settings(max_examples=300 if LONG else 150, deadline=None)
@given(some.lists(some.tuples(some.sampled_from([1, 2, 3, 9]), some.binary(max_size=60)), min_size=1, max_size=5))
def test_garbage_becomes_dead_letters(mappings, garbage):
    values = [content if number == 9 else framed(number, content) for number, content in garbage]
    for mapping in mappings:
        found = mapping.decode(log_of(values))
        assert len(found) + len(found.faults) == len(values)
        alone = [mapping.decode(log_of([value])) for value in values]
        assert [fault.message for own in alone for fault in own.faults] == [fault.message for fault in found.faults]
        if len(found):
            assert np.array_equal(found.rows, np.concatenate([own.rows for own in alone if len(own)]))


def test_an_array_in_a_message_with_a_schema_has_many_records(registry):
    rows = points(600).tolist()
    objects = [reading(row, i) for i, row in enumerate(rows)]
    objects[100] |= {"latency_ms": None}
    objects[101] |= {"cpu": float("inf")}
    objects[102] |= {"cpu": float("nan")}
    batches = [{"from": "a", "items": objects[start : start + 50]} for start in range(0, 600, 50)]
    schema = record(("from", "string"), ("items", {"type": "array", "items": SCHEMA}), name="Batch")
    values = registry.avro(schema, *batches)
    log = [Record(TOPIC, 0, i, STAMP, b"k", value) for i, value in enumerate(values)]
    log.insert(6, Record(TOPIC, 0, 6, STAMP, b"k", b"{}"))
    log = [each._replace(offset=i) for i, each in enumerate(log)]
    own = given_settings(registry, input__records="items")
    _, outputs = alike(own, log, stops=(1, 4))
    single = streams.task(given_settings(registry)).process(log_of(registry.avro(SCHEMA, *objects)))
    parts = ("id", "cluster", "score", "novel", "path", "time", "status")
    found, wanted = ([[each[name] for name in parts] for each in payloads(o.assignments)] for o in (outputs, single))
    assert found == wanted
    headers = [dict(message.headers) for message in outputs.dead_letters]
    kinds = [each["resonance.error.class"] for each in headers]
    assert kinds == [b"missing_feature", b"out_of_range", b"missing_feature", b"not_framed"]
    assert [each.get("resonance.error.index") for each in headers] == [b"0", b"1", b"2", None]
    assert orjson.loads(outputs.dead_letters[0].value)["id"] == "r100"
