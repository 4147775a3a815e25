"""Numbers of states, of quality and of units: what their names say of them, in other languages too."""

import random

import pytest
from resonance.pipeline.files.kinds import Kinds
from resonance.pipeline.files.sources import source_of
from resonance.pipeline.files.suggest import suggest
from resonance.pipeline.files.survey import FileSurvey

DRAW = random.Random(11)
AT = "2026-01-01T00:{:02d}:{:02d}Z"


QUALITIES = [
    "qc_flag",
    "QC",
    "quality",
    "data_quality_flag",
    "TA_qual",
    "ValueQuality",
    "Validity",
    "Qualität",
    "qa_ind",
]
STATES = ["Abriss", "Stillstand", "Anlage_Betrieb", "Tür", "machine_status", "sheet_break", "idle"]


def found(name, values, weights):
    drawn = DRAW.choices(values, weights, k=2_000)
    return suggest(FileSurvey([{name: each, "load": DRAW.random(), "heat": DRAW.gauss(40, 3)} for each in drawn]))


@pytest.mark.parametrize("name", QUALITIES)
@pytest.mark.parametrize("values", [(0, 1), (0, 1, 2), (0, 1, 2, 3, 4, 9), (0.0, 1.0, 2.0)])
def test_how_good_a_number_is_is_no_feature_though_it_is_nearly_always_0(name, values):
    taken = found(name, values, [97, *[1] * (len(values) - 1)])
    assert (taken.features, [*taken.left_out]) == (["load", "heat"], [name])
    assert taken.left_out[name].endswith("which may name kinds") or "a status or a quality" in taken.left_out[name]
    assert [*taken.categories] == [name]
    assert name in str(taken.findings[-1])


@pytest.mark.parametrize("name", ["status", "pump_state", "Zustand", "OperatingMode", "statusCode", "alarm_flags"])
def test_the_number_of_a_state_is_no_feature(name):
    taken = found(name, (0, 1, 2, 3), (97, 1, 1, 1))
    assert (taken.features, [*taken.categories]) == (["load", "heat"], [name])


@pytest.mark.parametrize("name", ["errors", "retries", "estate", "commodes", "Jams"])
def test_rare_counts_and_names_that_only_sound_like_states_are_features(name):
    assert found(name, (0, 1, 2, 3), (97, 1, 1, 1)).features == [name, "load", "heat"]


@pytest.mark.parametrize("name", ["air_quality", "water_quality"])
def test_an_index_of_quality_is_a_feature(name):
    assert found(name, range(1, 11), [1] * 10).features == [name, "load", "heat"]


@pytest.mark.parametrize("name", STATES)
def test_a_state_of_0_and_1_is_measured_in_other_languages_too(name):
    taken = found(name, (0, 1), (92, 8))
    assert (taken.features, taken.left_out) == ([name, "load", "heat"], {})


def test_a_single_0_and_1_that_may_be_a_state_is_no_label_for_sure():
    assert found("krk", (0, 1), (92, 8)).left_out == {
        "krk": "0 or 1: labels, for evaluate --truth, or a state, which input.features may name"
    }
    assert found("is_anomaly", (0, 1), (92, 8)).left_out == {"is_anomaly": "0 or 1: labels, for evaluate --truth"}


def long_form(named, shared):
    """Return rows of stations and of what they measure; some of it is in the same unit where this is `shared`."""
    units = {"TA": "degC", "TD": "degC" if shared else "K", "P": "hPa", "FF": "m/s"}
    rows = []
    for n in range(500):
        for station in ("A", "B", "C"):
            for each in units.items():
                own = dict(zip(named, each, strict=True))
                rows.append({"at": AT.format(*divmod(n, 60)), "station_id": station, **own, "value": DRAW.random() + 9})
    return rows


@pytest.mark.parametrize("tag", ["parameter", "metric", "Sensor", "variable", "channel", "measurement", "Messgröße"])
@pytest.mark.parametrize("unit", ["unit", "units", "uom", "Einheit"])
@pytest.mark.parametrize("shared", [False, True])
def test_what_is_measured_names_sources_and_its_unit_does_not(tag, unit, shared):
    for named in ((tag, unit), (unit, tag)):
        rows = long_form((tag, unit), shared)
        rows = [{each: row[each] for each in ("at", *named, "station_id", "value")} for row in rows]
        seen = FileSurvey(rows)
        source = source_of(seen, Kinds(seen))
        assert (sorted(source.paths), source.certain) == (sorted((tag, "station_id")), True)
        alone = FileSurvey([row for row in rows if row["station_id"] == "A"])
        assert source_of(alone, Kinds(alone)).paths == (tag,)


def test_a_unit_may_be_a_machine():
    rows = [{"unit": f"CS-{row.pop('station_id')}", **row} for row in long_form(("metric", "other"), False)]
    seen = FileSurvey(rows)
    assert sorted(source_of(seen, Kinds(seen)).paths) == ["metric", "unit"]


VERDICTS = [("OK", "FAIL"), ("good", "bad"), ("pass", "fail"), ("Passed", "Failed"), ("ok", "NOK"), ("i.O.", "n.i.O.")]


@pytest.mark.parametrize("name", ["lock", "check", "Ergebnis", "status"])
@pytest.mark.parametrize("values", [*VERDICTS, ("normal", "defect", "scrap"), ("valid", "invalid", "error", "ok")])
def test_texts_that_say_of_records_whether_they_were_good_are_offered_as_labels(name, values):
    taken = found(name, values, [97, *[1] * (len(values) - 1)])
    listed = " or ".join(sorted(values)) if len(values) == 2 else f"{len(values)} values"
    assert taken.left_out == {
        name: f"{listed}: labels, for evaluate --truth, or a state, which prepare.categories takes"
    }
    assert (taken.features, taken.texts, taken.categories) == (["load", "heat"], [], {name: sorted(values)})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *(("quality", ("good", "bad")), ("qc_flag", ("OK", "FAIL"))),
        *(
            ("lock", ("OK", "fine")),
            ("lock", ("good", "ok")),
            ("lock", ("N>R", "R>N")),
            ("lock", ("OK", "FAIL", "open")),
        ),
        *(("running", ("yes", "no")), ("lock", ("yes", "no", "maybe")), ("error", ("none", "error"))),
    ],
)
def test_texts_that_are_no_verdict_and_how_good_a_number_is_are_no_labels(name, values):
    taken = found(name, values, [97, *[1] * (len(values) - 1)])
    assert (taken.left_out, taken.texts) == ({}, [name])


@pytest.mark.parametrize("values", [("yes", "no"), ("Y", "N"), ("ja", "nein")])
def test_a_single_column_of_yes_and_no_may_be_a_label_as_one_of_1_and_0(values):
    assert found("broke", values, [1, 9]).left_out["broke"].endswith("a state, which prepare.categories takes")
    rows = [{"a": values[n % 9 == 0], "b": values[n % 7 == 0], "load": n % 97 / 7} for n in range(900)]
    assert not suggest(FileSurvey(rows)).left_out
    flag = [{**row, "b": int(row["b"] == values[0])} for row in rows]
    assert [*suggest(FileSurvey(flag)).left_out] == ["b"]
