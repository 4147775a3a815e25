"""What follows from settings: topics, streams, the parameters of engines and of their preparation."""

import pytest
from resonance.pipeline.config.sections import TopicsSection
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError

from tests.pipeline.config.minimal import MINIMAL


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
