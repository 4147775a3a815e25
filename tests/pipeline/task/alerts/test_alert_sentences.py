"""The sentence of an alert stays true for as long as it is open, which may be days."""

import pytest
from resonance.pipeline.task.alerts.sentences import SEVERITIES, sentence

EVIDENCE = {
    "unlike": {"unlike": 38.0, "records": 40.0, "usual": 0.012},
    "new_cluster": {"records": 64.0, "share": 0.266},
    "share": {"before": 0.1, "after": 0.2},
    "one_cluster": {"records": 2_000.0},
    "unconfirmed": {"records": 2_000.0},
    "drift_open": {"value": 1.2},
    "dead_letters": {"dead_letters": 51.0, "records": 1_000.0},
    "silent": {"seconds": 300.0, "usual_seconds": 1.5},
    "missing": {"missing": 27.0, "usual": 0.002},
}


def test_its_numbers_are_those_with_which_it_opened():
    assert EVIDENCE.keys() == SEVERITIES.keys()
    texts = {rule: sentence(rule, True, "x", evidence, "engine.reach") for rule, evidence in EVIDENCE.items()}
    assert texts == {
        "unlike": "x is unlike what is usual: 38 of 40 records were, usually 1.2 %",
        "new_cluster": "x is new: 64 records after it emerged it held 26.6 % of the recent ones",
        "share": "x has another share of its stream: it went from 10 % to 20 %",
        "one_cluster": (
            "x has taken nearly all of 2,000 records or more: the model separates little; look at engine.reach"
        ),
        "unconfirmed": "x has had no confirmed cluster for 2,000 records or more; look at engine.reach",
        "drift_open": "x has drifted, and that is not over yet",
        "dead_letters": "51 of 1,000 records of x were dead letters",
        "silent": "x has had no record for 5 min or more; usually one comes every 1.5 s",
        "missing": "x: 27 records in a row came without it, usually 1 of 500",
    }


def test_a_feature_that_is_missing_too_often_says_of_how_many_records():
    often = {"missing": 11.0, "records": 31.0, "usual": 0.012}
    assert sentence("missing", True, "x", often, None) == "x: 11 of 31 records came without it, usually 1.2 %"
    assert sentence("missing", False, "x", often, None) == "x no more: 11 of 31 records had come without it"


def test_what_is_unlike_names_the_features_that_are_far_off():
    features = [
        {"feature": name, "value": value, "low": low, "high": high}
        for name, value, low, high in (("cpu", 100.0, 24.0, 36.25), ("disk", 1234.5, 0.0, 10.0))
    ]
    said = "x is unlike what is usual: 38 of 40 records were, usually 1.2 %; cpu 100, usually 24 to 36.2"
    assert sentence("unlike", True, "x", EVIDENCE["unlike"], None, features[:1]) == said
    also = "; also: disk 1,234, usually 0 to 10"
    assert sentence("unlike", True, "x", EVIDENCE["unlike"], None, features) == said + also
    assert "cpu" not in sentence("unlike", False, "x", EVIDENCE["unlike"], None, features)


@pytest.mark.parametrize(("value", "low", "high", "said"), [
    (35.9, -7.9e-6, 7.1e-6, "35.9, usually 0"),
    (5.7e-6, 201.6, 616.0, "0, usually 202 to 616"),
    (9.9, -0.02, 0.24, "9.9, usually -0.02 to 0.24"),
    (1e-5, 1e-7, 2e-6, "1e-05, usually 1e-07 to 2e-06"),
])  # fmt: skip
def test_dust_beside_what_a_feature_has_is_zero(value, low, high, said):
    features = [{"feature": "flow", "value": value, "low": low, "high": high}]
    assert sentence("unlike", True, "x", EVIDENCE["unlike"], None, features).endswith(f"; flow {said}")


def test_an_alert_whose_rule_has_ended_says_so():
    for rule, began in (("unlike", "model"), ("share", "model or watch")):
        assert sentence(rule, False, "x", {"ended": 1.0}, None) == (
            f"x: the alert ended, because a new {began} began or the rule was switched off"
        )
