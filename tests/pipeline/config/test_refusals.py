"""Settings that cannot be used are named with what can, all at once, in one wording."""

import re

import pytest
from resonance.pipeline.config.reference import reference
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError

from tests.pipeline.config.minimal import refusal

LABELLED = {"engine.name": "mlca", "labels.topic": "l"}
SPARSE = {"input.sparse": "s", "engine.name": "sa_art"}


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


def test_every_setting_is_offered_for_its_name_with_a_slip():
    for row in (row for section, rows in reference().items() if not section.startswith("engine") for row in rows):
        assert f"(did you mean {row.name}?)" in refusal({row.name + row.name[-1]: "x"})


def test_every_fault_is_reported_at_once():
    assert len(refusal({"limits.streams": 0, "worker.web_port": 0}).splitlines()) == 2


@pytest.mark.parametrize("wrong", ["0", 2.5, True, "all", 1_001])
def test_other_numbers_of_processes_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=r"worker.processes.* must be auto, or an integer from 1 to 1,000"):
        Settings.of({"input.topics": "in", "worker.processes": wrong})


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
