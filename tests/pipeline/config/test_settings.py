"""Settings: four sources, one wording of errors, nothing unknown, no secret shown."""

import re

import pytest
from confluent_kafka import KafkaException, Producer
from resonance.pipeline.cli.options import given
from resonance.pipeline.config.properties import OWNED
from resonance.pipeline.config.reference import reference
from resonance.pipeline.config.sections import TopicsSection
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.clients import librdkafka

MINIMAL = {"input.topics": ["features"]}
LABELLED = {"engine.name": "mlca", "labels.topic": "l"}
SPARSE = {"input.sparse": "s", "engine.name": "sa_art"}


def refusal(values):
    with pytest.raises(ConfigurationError) as caught:
        Settings.of({**MINIMAL, **values})
    return str(caught.value)


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(monkeypatch, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text(
        'name = "file"\n[input]\ntopics = ["file"]\n[limits]\nstreams = 1\nmemory = 500000000\n[worker]\nweb_port = 1\n'
    )
    monkeypatch.setenv("RESONANCE_INPUT__TOPICS", "env-a, env-b")
    monkeypatch.setenv("RESONANCE_LIMITS__STREAMS", "2")
    monkeypatch.setenv("RESONANCE_NAME", "env")
    settings = Settings.load(file, {"limits.streams": "3", "worker": {"id": "w1"}, "output.envelope": None})
    assert (settings.limits.streams, settings.limits.memory, settings.limits.record_bytes) == (
        3,
        500_000_000,
        1_000_000,
    )
    assert settings.input.topics == ("env-a", "env-b")
    assert settings.name == settings.group == "env"
    assert (settings.worker.web_port, settings.worker_id) == (1, "w1")


def test_the_file_of_the_working_folder_is_read(tmp_path):
    (tmp_path / "resonance.toml").write_text('[input]\ntopics = ["here"]\n')
    assert Settings.load().input.topics == ("here",)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"absent\.toml: the settings cannot be read \(No such file"):
        Settings.load(tmp_path / "absent.toml")


def test_a_file_of_a_windows_editor_is_read_or_told_how_to_be_saved(tmp_path):
    text, file = 'name = "straße"\n[input]\ntopics = ["in"]\n', tmp_path / "shop.toml"
    file.write_text(text, encoding="utf-8-sig")
    assert Settings.load(file, {"name": "shop"}).input.topics == ("in",)
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        file.write_text(text, encoding=encoding)
        with pytest.raises(ConfigurationError, match=r"shop\.toml: not UTF-8 but UTF-16, .* save the file as UTF-8"):
            Settings.load(file)
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigurationError, match=r"shop\.toml:1: not TOML: a character that is not UTF-8"):
        Settings.load(file)


def test_text_from_the_environment_becomes_lists_tables_and_numbers(monkeypatch):
    for name, value in {
        "INPUT__TOPICS": '["a"]',
        "INPUT__FEATURES": "latency_ms,geo.lat,country",
        "INPUT__DIMENSION": "none",
        "PREPARE__SCALE": "given",
        "PREPARE__RANGES": '{"latency_ms": [0, 500], "geo.lat": [-90, 90]}',
        "PREPARE__CATEGORIES": '{"country": ["DE", "FR"]}',
        "PREPARE__MISSING": "1.5",
        "ENGINE__LANDMARKS": "400",
        "TOPICS__CREATE": "false",
    }.items():
        monkeypatch.setenv(f"RESONANCE_{name}", value)
    settings = Settings.load()
    assert settings.features == ("latency_ms", "geo.lat", "country")
    assert settings.prepare.ranges == {"latency_ms": (0.0, 500.0), "geo.lat": (-90.0, 90.0)}
    assert (settings.prepare.categories, settings.prepare.missing) == ({"country": ("DE", "FR")}, 1.5)
    assert (settings.input.dimension, settings.engine_parameters["landmarks"]) == (None, 400)
    assert settings.topics.create is False


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


def test_the_longest_names_of_topics_can_be_used():
    settings = Settings.of({**MINIMAL, "name": "n" * 200, "topics.pattern": "x" * 34 + "{name}.{kind}"})
    assert len(settings.topic("cluster_events")) == 249


def test_topics_group_and_ids_derive_from_the_name():
    settings = Settings.of({**MINIMAL, "name": "shop", "worker.web_port": 7001})
    assert [settings.topic(kind) for kind in TopicsSection.KINDS] == [
        "shop.assignments",
        "shop.cluster-events",
        "shop.drift-events",
        "shop.alerts",
        "shop.dead-letters",
        "shop.clusters",
        "shop.snapshots",
        "shop.archive",
        "shop.routes",
        "shop.names",
        "shop.incidents",
    ]
    assert settings.group == "shop"
    assert settings.worker_id.endswith("-7001")
    assert settings.transactional_id == f"shop-{settings.worker_id}"


def test_required_settings_say_the_three_ways_to_set_them(tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text('name = "shop"\n')
    for named, reason in ((None, "there is no resonance.toml in this folder"), (file, f"{file} does not have it")):
        with pytest.raises(ConfigurationError) as caught:
            Settings.load(named)
        assert str(caught.value) == (
            f"input.topics is not set ({reason}): set it in the file, as RESONANCE_INPUT__TOPICS in the environment, "
            "or as --input.topics a,b on the command line"
        )


def test_every_setting_is_offered_for_its_name_with_a_slip():
    for row in (row for section, rows in reference().items() if not section.startswith("engine") for row in rows):
        assert f"(did you mean {row.name}?)" in refusal({row.name + row.name[-1]: "x"})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"limts": {"streams": 3}}, r"^limts: there is no such setting \(did you mean limits\?\); the settings can"),
        ({"nme": "x"}, r"did you mean name\?"),
        ({"id_path": "x"}, r"^id_path: there is no such setting \(did you mean input\.id_path\?\); the settings can"),
        ({"bootstrap.servers": "x"}, r"^bootstrap: there is no such setting \(did you mean broker\.bootstrap\?\); "),
        (
            {"limits.steams": 3},
            r"^limits\.steams: there is no such setting \(did you mean limits\.streams\?\); the sec",
        ),
        ({"limits.ttl": 3}, r"did you mean limits\.stream_ttl\?"),
        ({"prepare.warmupp": 3}, r"did you mean prepare\.warmup_records\?"),
        ({"input.idd": "x"}, r"did you mean input\.id_path\?"),
        ({"worker.web": "x"}, r"did you mean worker\.web_host or worker\.web_port or worker\.web_token\?"),
        ({"prepare.xyzzy": 3}, r"^prepare\.xyzzy: there is no such setting; the section"),
        ({"engine.namee": "x"}, r"did you mean engine\.name\?"),
        ({"engine.tauu": 1}, r"did you mean engine\.tau\?"),
        ({"prepare.categories.mode": '["a"]'}, r"""as JSON: --set 'prepare\.categories=\{"mode": \["a"\]\}'$"""),
        ({"engine.landmark": 3}, r"^engine\.landmark = 3: .*did you mean landmarks\?\)$"),
        ({"engine.landmarks": 2}, r"^engine\.landmarks = 2: must be an integer of at least 64"),
        ({"engine.landmarks": "many"}, r"^engine\.landmarks = 'many': must be an integer of at least 64"),
        (
            {"engine.tau": 0.2},
            r"^engine\.tau = 0\.2: .*, has no tau, caea, hcaea have it: set engine\.name to that engine",
        ),
        ({"engine.name": "modal", "engine.orphans": "drop"}, r"^engine\.orphans = 'drop': .*; modal has no orphans"),
        ({"engine.name": "caea", "engine.lamda": 3}, r"^engine\.lamda = 3: .*did you mean lambda\?\)$"),
        ({"engine.name": "cea"}, r"^engine\.name = 'cea': must be one of .*did you mean caea\?"),
        ({"engine.name": "caea", "engine.preset": "papr"}, "must be one of paper .did you mean paper"),
        ({"engine.preset": "paper"}, "modal has no presets; modal, the default, has no preset paper, caea, .* have it"),
        ({"limits.streams": 0}, r"^limits\.streams = 0: must be at least 1"),
        ({"limits.streams": "many"}, r"^limits\.streams = 'many': must be an integer"),
        ({"limits.streams": True}, r"^limits\.streams = True: must be a number, not true or false"),
        ({"limits": 3}, r"^limits: must be a table of settings; give them one by one, as limits\.<name> in the file"),
        ({"input": "foo"}, r"^input is given as one value, and its settings beside it"),
        *(({"stream": choice}, f"stream = '{choice}'") for choice in ("field:", "field:a..b", "field")),
        ({"stream": "user"}, "the records of each key share one model"),
        ({"worker.processes": 40, "worker.web_port": 65_500}, r"^worker\.processes = 40: must be at most 35; each has"),
        ({"valley": 0.5}, r"did you mean engine\.valley\?"),
        (
            {"engine.lamda": 3},
            r"did you mean engine\.lambda\?\); modal, the default, has no lambda, caea, .* have it: set",
        ),
        ({"alerts.off": "unlik"}, r"must be one of .* \(did you mean unlike\?\)$"),
        ({"stream": "keys"}, r"must be one of \(did you mean key\?\)\n  stream = \"partition\""),
        ({"prepare.missing": "meen"}, r"must be reject, mean or a number \(did you mean mean\?\)$"),
        ({"start": "earlist"}, r"\(did you mean earliest\?\)$"),
        ({"delivery.mode": "once"}, r"^delivery\.mode = 'once': must be one of exactly_once, at_least_once"),
        (
            {"delivery.mode": "at_least_once", "stream": "topic"},
            r"^delivery\.mode = 'at_least_once': must be exactly_once with stream = topic, or a record could be",
        ),
        ({"delivery.commit_interval": float("nan")}, r"^delivery\.commit_interval = nan: must be a"),
        (
            {"delivery.commit_interval": 2, "delivery.transaction_timeout": 3},
            r"^delivery\.commit_interval = 2\.0: must be at most half of delivery\.transaction_timeout \(3\)",
        ),
        ({"input.topics": []}, r"^input\.topics = \[\]: must not be empty"),
        ({"input.topics": ["a b"]}, r"^input\.topics = \['a b'\]: 'a b' is no topic name"),
        ({"input.topics": ["a", "a"]}, r"the same topic stands there twice"),
        ({"input.features": []}, r"^input\.features = \[\]: an empty list"),
        ({"input.features": ["a", "a"]}, r"the same path stands there twice"),
        ({"input.features": "a..b"}, r"^input\.features = 'a\.\.b': a path is names joined by dots"),
        ({"input.dimension": 0}, r"^input\.dimension = 0: must be at least 1"),
        (
            {"input.sparse": "s"},
            "engines that take sparse records, and engine.name is modal; choose fuzzy_art or sa_art",
        ),
        (SPARSE | {"input.features": "features"}, r"^input\.sparse = 's': does not go together with input\.features"),
        (SPARSE | {"input.dimension": 5}, r"^input\.sparse = 's': does not go together with input\.dimension"),
        (SPARSE | {"prepare.scale": "warmup"}, r"^prepare\.scale = 'warmup': with input\.sparse must be none or given"),
        (SPARSE | {"prepare.missing": 0}, r"^prepare\.missing = 0\.0: has no meaning with input\.sparse"),
        (SPARSE | {"prepare.categories": {"a": ["x"]}}, r"^prepare\.categories = .*: has no meaning with input"),
        (SPARSE | {"prepare.scale": "given", "prepare.ranges": {"a": [0, 1]}}, "must be a table with"),
        (SPARSE | {"prepare.scale": "given", "prepare.ranges": {"*": [1, 5]}}, "must be 0 and what"),
        (SPARSE | {"prepare.ranges": {"*": [0, 5]}}, r"^prepare\.ranges = \['\*'\]: with input\.sparse must be absent"),
        ({"input.label_path": "s"}, r"^input\.label_path = 's': is for engines .* \(mlca, .* modal does not; leave it"),
        ({"labels.topic": "l"}, r"^labels\.topic = 'l': is for engines .* \(mlca, .* modal does not; leave it out"),
        (LABELLED, r"^labels\.topic = 'l': needs stream = topic or field:<path>.* stream is not set; choose"),
        ({**LABELLED, "stream": "key"}, r"^labels\.topic = 'l': needs stream = topic .* stream is key; choose topic"),
        ({**LABELLED, "stream": "topic"}, r"^labels\.topic = 'l': needs input\.id_path"),
        ({**LABELLED, "stream": "topic", "input.id_path": "id"}, r"needs features that .*\(input\.dimension"),
        ({**LABELLED, "stream": "topic", "labels.topic": "features"}, r"^labels\.topic = 'features': must differ from"),
        (
            {
                **LABELLED,
                "stream": "topic",
                "input.id_path": "id",
                "input.dimension": 2,
                "labels.topic": "resonance.routes",
            },
            r"^topics\.pattern = .*: gives the topic resonance\.routes, which is in labels\.topic",
        ),
        ({"engine.name": "mlca", "engine.max_labels": 1001}, "must be an integer of at most 1,000: every"),
        ({"labels.topic": "a b"}, r"^labels\.topic = 'a b': 'a b' is no topic name"),
        ({"name": "a/b"}, r"^name = 'a/b': must consist of"),
        (
            {"input.topics": ["resonance.clusters"]},
            r"^topics\.pattern = .*: gives the topic resonance\.clusters, which is in input",
        ),
        ({"topics.pattern": "{kind}"}, r"^topics\.pattern = '{kind}': must have {name} and {kind}, each once"),
        ({"topics.pattern": "{name}/{kind}"}, r"^topics\.pattern = .*: 'n/k' is no topic name"),
        (
            {"name": "n" * 200, "topics.pattern": "x" * 35 + "{name}.{kind}"},
            r"^topics\.pattern = 'xx.*: gives topics of up to 250 characters, and Kafka takes 249; shorten it, or name",
        ),
        (
            {"name": ".", "topics.pattern": "{name}" + "x" * 300 + "{kind}"},
            r"^topics\.pattern = '{name}xx.*: .* is no topic name",
        ),
        ({"prepare.missing": "median"}, r"^prepare\.missing = 'median': must be reject, mean or a number"),
        ({"prepare.missing": float("nan")}, r"^prepare\.missing = nan: must be reject, mean or a number$"),
        ({"prepare.missing": True}, r"^prepare\.missing = True: must be reject, mean or a number$"),
        ({"input.features": 5}, r"^input\.features = 5: must be a path, or a list of paths$"),
        ({"input.features": ["a", 5]}, r"^input\.features = \['a', 5\]: must be a path, or a list of paths$"),
        ({"prepare.project": "some"}, r"^prepare\.project = 'some': must be auto, or an integer from 0 to 64"),
        ({"prepare.project": True}, r"^prepare\.project = True: must be auto, or an integer"),
        ({"prepare.project": 2.5}, r"^prepare\.project = 2\.5: must be auto, or an integer"),
        ({"prepare.project": 65}, r"^prepare\.project = 65: must be auto, or an integer from 0 to 64"),
        ({"input.features": ["cpu", "load"], "prepare.project": 3}, r"^prepare\.project = 3: must be auto, or at most"),
        ({"input.dimension": 4, "prepare.project": 5}, r"^prepare\.project = 5: must be auto, or at most 4"),
        ({"engine.name": "sa_art", "prepare.project": 2}, r"^prepare\.project = 2: .* is defined on \[0, 1\] alone"),
        (SPARSE | {"prepare.project": 2}, r"^prepare\.project = 2: is for dense records; leave it out"),
        (
            {"engine.name": "evq", "input.dimension": 257, "prepare.project": 0},
            "has 257 features and evq takes at most 256",
        ),
        (
            {"engine.name": "ildn", "input.features": [f"x{number}" for number in range(300)], "prepare.scale": "none"},
            r"^prepare\.project = 'auto': must be from 1 to 64 principal axes, because a record has 300 features and",
        ),
        (
            {
                "engine.name": "evq",
                "input.features": ["country", "amount"],
                "prepare.categories": {"country": [f"c{number}" for number in range(256)]},
                "prepare.project": 0,
            },
            r"^prepare\.project = 0: must be .* because a record has 257 features",
        ),
        ({"engine.name": "sa_art", "engine.max_features": 200, "input.dimension": 201}, "must be at least 201"),
        ({"prepare.rescale": "often"}, r"^prepare\.rescale = 'often': must be auto, true or false"),
        ({"prepare.rescale": True, "prepare.scale": "none"}, r"^prepare\.rescale = True: must be false or auto"),
        ({"prepare.rescale": True, "engine.name": "caea"}, r"^prepare\.rescale = True: must be false or auto, because"),
        ({"prepare.warmup_records": 0}, r"^prepare\.warmup_records = 0: must be at least 1"),
        ({"prepare.scale": "given"}, r"^prepare\.scale = 'given': needs prepare\.ranges"),
        ({"input.features": ["cpu", "load"], "prepare.log1p": ["laod"]}, r"prepare\.log1p = 'laod'.*mean load\?"),
        (
            {"input.features": ["cpu", "load"], "prepare.scale": "given", "prepare.ranges": {"cpu": [0, 1]}},
            r"^prepare\.ranges = .*load has none",
        ),
        ({"prepare.categories": {"a": 5}}, r"^prepare\.categories = .*a has 5: must be a list of the values"),
        ({"prepare.categories": {"a": {"b": 5}}}, r"^prepare\.categories = .*: must be a list of the values"),
        ({"prepare.ranges": {"a": [1]}}, r"^prepare\.ranges = .*a has \[1\]: must be \[value that becomes 0, value"),
        ({"prepare.ranges": '{"a": 1}'}, r"^prepare\.ranges = .*a has 1: must be \[value that becomes 0, value"),
        ({"input.features": ["cpu"], "prepare.categories": {"cpu": [1.5]}}, r"^prepare\.categories = .*a category's"),
        ({"broker.librdkafka": 3}, r"^broker\.librdkafka = \*+: must be a table"),
        (
            {"broker.librdkafka.sasl.username": ["me"]},
            r"^broker\.librdkafka = \*+: sasl\.username must be text, a number",
        ),
        (
            {"broker.librdkafka": {"sasl": {"pasword": "hunter2"}}},
            r"^broker\.librdkafka\.sasl\.pasword = \*+: librdkafka has no such property \(did you mean sasl\.passwo",
        ),
        (
            {"broker.librdkafka.sasl.mechanism": "OAUTHBEARER"},
            r"^broker\.librdkafka\.sasl\.oauthbearer\.method = 'default': must be oidc with sasl\.mechanism",
        ),
        (
            {"schema_registry.client.max.retries": 9},
            r"^schema_registry\.client\.max\.retries = '9': must not be set: a worker waits for a registry for a fixed",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_what_can(values, expected):
    assert re.search(expected, refusal(values)), refusal(values)


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
    "values",
    [
        {"engine.name": "evq", "input.dimension": 256, "prepare.project": 0},
        {"engine.name": "evq", "input.dimension": 4096},
        {"engine.name": "ildn", "input.dimension": 4096, "prepare.scale": "none", "prepare.project": 64},
        {"engine.name": "evq", "prepare.project": 0},
        {"engine.name": "modal", "input.dimension": 4096, "prepare.project": 0},
        {"engine.name": "sa_art", "engine.max_features": 200, "input.sparse": "counts"},
    ],
)
def test_an_engine_is_given_no_more_features_than_it_takes(values):
    given = Settings.of({**MINIMAL, **values})
    if (count := given.input.dimension) is not None:
        most = given.engine_class.most_features
        assert most is None or given.preparation([f"f{number}" for number in range(count)]).dimension <= most


def test_every_fault_is_reported_at_once():
    assert len(refusal({"limits.streams": 0, "worker.web_port": 0}).splitlines()) == 2


def test_the_origin_of_a_value_is_reported(monkeypatch, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text('[input]\ntopics = ["a"]\n[limits]\nstreams = 0\n[engine]\nlambda = 1\n')
    with pytest.raises(ConfigurationError, match=r"limits\.streams = 0 \(in .*shop\.toml\): must be at least 1"):
        Settings.load(file)
    monkeypatch.setenv("RESONANCE_LIMITS__STREAMS", "-1")
    with pytest.raises(ConfigurationError, match=r"limits\.streams = '-1' \(from RESONANCE_LIMITS__STREAMS\)"):
        Settings.load(file)
    with pytest.raises(ConfigurationError, match=r"limits\.streams = '-2' \(on the command line\)"):
        Settings.load(file, {"limits.streams": "-2"})
    with pytest.raises(ConfigurationError, match=r"engine\.lambda = 1 \(in .*shop\.toml\)"):
        Settings.load(file, {"limits.streams": "2"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("RESONANCE_SERVICE_HOST", "10.0.0.1"), ("RESONANCE_SERVICE_PORT_HTTP", "6066")),
        *(("RESONANCE_PORT", "tcp://10.0.0.1:6066"), ("RESONANCE_PORT_6066_TCP_ADDR", "10.0.0.1")),
        *(("RESONANCE_WORKER_PORT_6066_TCP", "tcp://10.0.0.1:6066"), ("RESONANCE_FAULT_POINT", "after-begin")),
    ],
)
def test_variables_of_a_kubernetes_service_and_of_the_tests_are_none_of_ours(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    Settings.load(flags=MINIMAL)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RESONANCE_INPTU__TOPICS", r"there is no such setting \(did you mean RESONANCE_INPUT__TOPICS\?\)"),
        ("RESONANCE_STRAEM", r"did you mean RESONANCE_STREAM\?"),
        ("RESONANCE_NAEM", r"did you mean RESONANCE_NAME\?"),
        ("RESONANCE_WORKER_WEB_PORT", r"did you mean RESONANCE_WORKER__WEB_PORT\?"),
        ("RESONANCE_INPUT_TOPICS", r"did you mean RESONANCE_INPUT__TOPICS\?"),
        ("RESONANCE_ENGINE_VALLEY", r"did you mean RESONANCE_ENGINE__VALLEY\?"),
        ("RESONANCE_ENGINE_TAU", r"there is no such setting; "),
        ("RESONANCE_WARMUPP", r"did you mean RESONANCE_PREPARE__WARMUP_RECORDS\?"),
        ("RESONANCE_PREPARE_WARMUPP", r"did you mean RESONANCE_PREPARE__WARMUP_RECORDS\?"),
        ("RESONANCE_XYZZY", r"there is no such setting; name, stream, .*two underscores \(RESONANCE_INPUT__TOPICS\)"),
    ],
)
def test_every_other_variable_with_the_prefix_is_refused(name, text, monkeypatch):
    monkeypatch.setenv(name, "7077")
    with pytest.raises(ConfigurationError, match=f"^{name}: .*{text}"):
        Settings.load(flags=MINIMAL)


def test_an_unknown_name_in_a_section_is_refused_wherever_it_was_given(monkeypatch):
    monkeypatch.setenv("RESONANCE_INPUT__FEATRUES", "a")
    with pytest.raises(ConfigurationError, match=r"input\.featrues \(from RESONANCE_INPUT__FEATRUES\).*features\?"):
        Settings.load(flags=MINIMAL)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b'[input]\ntopics = "a\n', r"shop\.toml:2: not TOML: illegal character .*, at column 12; correct it"),
        (b"name = 'a'\n[input\n", r"shop\.toml:2: not TOML: expected ']' .*, at column 7"),
        (b"name = 'a'\n# \xff\n", r"shop\.toml:2: not TOML: a character that is not UTF-8"),
        (b"[input]\ntopics = [", r"shop\.toml: not TOML: .*\(at end of document\)"),
    ],
)
def test_a_file_that_is_not_toml_names_the_line(text, shown, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_bytes(text)
    with pytest.raises(ConfigurationError, match=shown):
        Settings.load(file)


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


def test_one_partition_needs_no_decision_about_streams():
    assert Settings.of(MINIMAL).check_stream(1) == "partition"
    assert Settings.of({**MINIMAL, "stream": "key"}).check_stream(4) == "key"


def test_several_partitions_need_one_with_a_sentence_for_each_choice():
    with pytest.raises(ConfigurationError) as caught:
        Settings.of(MINIMAL).check_stream(4)
    text = str(caught.value)
    assert "stream is not set, and features has 4 partitions" in text
    for choice in ('"partition":', '"key":', '"topic":', '"field:<path>":'):
        assert choice in text


@pytest.mark.parametrize(("choice", "path"), [("topic", None), ("field:geo.country", ("geo", "country"))])
def test_streams_across_partitions_are_rekeyed(choice, path):
    settings = Settings.of({"input.topics": "a,b", "stream": choice})
    assert (settings.is_rekeyed, settings.stream_field) == (True, path)
    assert settings.logs == ("a", "b", "resonance.routes")
    assert Settings.of({"input.topics": "a,b", "stream": "key"}).logs == ("a", "b")


def test_a_preset_gives_way_to_what_is_given():
    settings = Settings.of({**MINIMAL, "engine.name": "caea", "engine.preset": "paper", "engine.tau": 0.2})
    assert (settings.engine_parameters["lambda"], settings.engine_parameters["grace"]) == (28, 0)
    assert settings.engine_parameters["tau"] == 0.2


@pytest.mark.parametrize(
    ("values", "axes", "records"),
    [
        *(({}, 16, 500), ({"prepare.project": "auto", "prepare.warmup_records": 60}, 16, 60)),
        *(({"prepare.project": "8", "prepare.warmup_records": "none"}, 8, 500), ({"prepare.project": 0}, 40, 200)),
        *(({"prepare.scale": "none"}, 40, 0), ({"prepare.scale": "none", "prepare.project": 30}, 30, 500)),
        *(({"engine.name": "evq"}, 16, 500), ({"engine.name": "hcaea", "hierarchy": "keyed"}, 16, 500)),
        *(({"engine.name": "mlca"}, 40, 200), ({"engine.name": "mlca", "prepare.project": 4}, 4, 500)),
        ({"engine.name": "sa_art"}, 40, 200),
    ],
)
def test_records_of_many_features_are_projected_unless_something_speaks_against_it(values, axes, records):
    settings = Settings.of({**MINIMAL, "input.dimension": 40, **values})
    preparation = settings.preparation([f"f{number}" for number in range(40)])
    assert (preparation.dimension, preparation.warmup_records if preparation.wanted else 0) == (axes, records)
    assert settings.may_project == preparation.projects
    few = settings.preparation([f"f{number}" for number in range(32)]) if axes == 16 else None
    assert few is None or not few.projects


def test_axes_have_no_given_ranges():
    ranges = {f"x{number}": [0, 1] for number in range(20)}
    given = {**MINIMAL, "engine.name": "evq", "prepare.scale": "given", "prepare.ranges": ranges}
    assert Settings.of(given).engine_parameters["low"] == 0.0
    assert Settings.of({**given, "prepare.project": 4}).engine_parameters["low"] is None


@pytest.mark.parametrize(("given", "found"), [("auto", "auto"), ("4", 4), (2, 2)])
def test_processes_are_a_number_or_one_for_each_core(given, found):
    assert Settings.of({"input.topics": "in", "worker.processes": given}).worker.processes == found


@pytest.mark.parametrize("wrong", ["0", 2.5, True, "all", 1_001])
def test_other_numbers_of_processes_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=r"worker.processes.* must be auto, or an integer from 1 to 1,000"):
        Settings.of({"input.topics": "in", "worker.processes": wrong})


def test_the_rarity_of_drift_events_follows_from_that_of_alerts_unless_it_is_given():
    def rarity(**changes):
        own = {"input.topics": ["a"], "stream": "key"}
        return Settings.of(own | {name.replace("__", "."): value for name, value in changes.items()}).drift_parameters[
            "rarity"
        ]

    assert rarity() == 1e5
    assert rarity(alerts__rarity=1e9) == 1e7
    assert rarity(alerts__rarity=1e3) == 100.0
    assert rarity(alerts__rarity=1e9, drift__rarity="2e6") == 2e6
    for wrong in (99, "rare", True, 1e16):
        with pytest.raises(ConfigurationError, match="must be auto, or a number from 100 to 1e15"):
            rarity(drift__rarity=wrong)


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


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"records": ""}, None),
        ({"records": "."}, None),
        ({"records": "batch.items"}, None),
        ({"records": "a..b"}, r"input\.records = 'a\.\.b': a path is names joined by dots"),
        ({"records": ".", "features": "x"}, r"input\.records = '\.': needs features that are known"),
        ({"records": ".", "features": "x", "dimension": 3}, None),
        ({"records": ".", "format": "float32", "features": "x"}, r"input\.records = '\.': reads a member of a JSON"),
    ],
)
def test_the_records_of_messages_need_a_path_and_features_that_are_known(changes, text):
    given = {"input": {"topics": ["t"], "features": ["a", "b"], **changes}}
    if text is None:
        assert Settings.of(given).input.records == (changes["records"] or None)
    else:
        with pytest.raises(ConfigurationError, match=text):
            Settings.of(given)


def test_the_records_of_messages_are_no_trees_over_workers():
    given = {"input": {"topics": ["t"], "features": ["a"], "records": "."}, "hierarchy": "keyed"}
    with pytest.raises(ConfigurationError, match=r"input\.records = '\.': does not go together with hierarchy = keyed"):
        Settings.of({**given, "engine": {"name": "hcaea"}, "stream": "key"})
