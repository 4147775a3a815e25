"""The command: its figures are those of an independent computation, and bad input ends in a sentence."""

import csv
import re
from itertools import chain

import numpy as np
import orjson
import pyarrow
import pytest
from pyarrow import parquet
from resonance.pipeline.errors import MISSED
from resonance.pipeline.evaluate import figures
from sklearn import metrics
from sklearn.cluster import KMeans

from tests.pipeline.commands import run
from tests.pipeline.evaluate.generated import GIVEN, SMALL, lines, write


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(write(tmp_path / "machines.jsonl"))


DOCUMENTS = {}
"""What the command has printed, by its options: they give the same again."""


@pytest.fixture
def evaluated(file, monkeypatch, capsys):
    """Run the command with `--json` and return its document, with windows of 240 records: each takes long."""
    monkeypatch.setattr(figures, "WINDOWS", 5)

    def evaluate(*options, expected=0, anew=False):
        if anew or options not in DOCUMENTS:
            own = (*GIVEN, *SMALL, "--processes", "1", "--json", *options)
            assert run(monkeypatch, "evaluate", file, *own) == expected
            DOCUMENTS[options] = capsys.readouterr().out
        return orjson.loads(DOCUMENTS[options])

    return evaluate


def replayed(monkeypatch, file, folder, *options):
    """The assignments and events of `resonance replay`."""
    assert run(monkeypatch, "replay", file, *GIVEN, *SMALL, *options, "--processes", "1", "-o", str(folder)) == 0
    kinds = ("assignments", "cluster-events")
    return [[orjson.loads(line)["value"] for line in (folder / f"{kind}.jsonl").open()] for kind in kinds]


@pytest.mark.parametrize("engine", ["modal", "evq"])
def test_every_figure_equals_an_independent_computation_from_the_files_of_replay(
    engine, evaluated, file, tmp_path, monkeypatch
):
    (candidate,) = evaluated("--truth", "kind", "--engine", engine)["candidates"]
    answers, events = replayed(monkeypatch, file, tmp_path / "out", "--set", f"engine.name={engine}")
    truth = [line["kind"] for line in lines()]
    cluster = [answer["cluster"] or "none" for answer in answers]

    def own(begin, end):
        true, found = truth[begin:end], cluster[begin:end]
        sizes = [found.count(name) for name in set(found) - {"none"}]
        causes = [event["cause"]["source"]["offset"] for event in events]
        return {
            "ari": metrics.adjusted_rand_score(true, found),
            "ami": metrics.adjusted_mutual_info_score(true, found),
            "homogeneity": metrics.homogeneity_score(true, found),
            "completeness": metrics.completeness_score(true, found),
            "largest": max(sizes, default=0) / (end - begin),
            "novelty": np.mean([answer["novel"] for answer in answers[begin:end]]),
            "unanswered": found.count("none") / (end - begin),
            "events": 1_000 * sum(begin <= at < end for at in causes) / (end - begin),
        }

    whole = candidate["figures"]
    assert {name: whole[name] for name in own(0, 1)} == pytest.approx(own(0, len(truth)))
    assert whole["clusters"] == len(set(cluster) - {"none"})
    assert whole["ari"] > 0.5
    for number, window in enumerate(candidate["windows"]):
        assert window == pytest.approx(own(240 * number, 240 * number + 240)), number


def test_without_truth_the_silhouette_of_windows_is_the_mean_that_is_shown(evaluated, file, tmp_path, monkeypatch):
    own = ["--set", "prepare.scale=none"]
    (candidate,) = evaluated("--engine", "evq", *own)["candidates"]
    answers, _ = replayed(monkeypatch, file, tmp_path / "out", "--set", "engine.name=evq", *own)
    rows = np.array([[line["cpu"], line["latency_ms"], line["net"]["in"]] for line in lines()])
    found = []
    for begin in range(0, 1_200, 240):
        names = np.array([answer["cluster"] or "" for answer in answers[begin : begin + 240]])
        inside = names != ""
        score = 0.0
        if 2 <= len(set(names[inside])) < inside.sum():
            score = metrics.silhouette_score(rows[begin : begin + 240][inside], names[inside]) * inside.mean()
        found.append(score)
    assert [window["silhouette"] for window in candidate["windows"]] == pytest.approx(found)
    assert candidate["figures"]["silhouette"] == pytest.approx(np.mean(found))


def test_a_candidate_with_one_cluster_has_no_silhouette(evaluated):
    one, k_means = evaluated()["baselines"]
    assert (one["figures"]["clusters"], one["figures"]["silhouette"]) == (1, None)
    assert k_means["figures"]["silhouette"] is not None


def test_the_baselines_are_one_cluster_and_k_means_of_the_first_half(evaluated):
    one, k_means = evaluated("--truth", "kind", "--set", "prepare.scale=none")["baselines"]
    truth = np.array([line["kind"] for line in lines()])
    rows = np.array([[line["cpu"], line["latency_ms"], line["net"]["in"]] for line in lines()])
    model = KMeans(3, n_init=3, random_state=0).fit(rows[:600])
    assert k_means["name"] == "k-means, k = 3"
    assert k_means["figures"]["ari"] == pytest.approx(metrics.adjusted_rand_score(truth, model.predict(rows)))
    assert (one["figures"]["ari"], one["figures"]["largest"], one["figures"]["clusters"]) == (0.0, 1.0, 1)


def test_shuffled_orders_have_a_mean_and_a_spread(evaluated):
    document = evaluated("--truth", "kind", "--shuffle", "2", "--engine", "evq")
    (candidate,) = document["candidates"]
    assert set(candidate["shuffled"]) >= {"ari", "events"}
    assert "microseconds" not in candidate["shuffled"]
    assert candidate["shuffled"]["ari"]["spread"] >= 0
    # All three kinds come from the first records on.
    assert candidate["shuffled"]["ari"]["mean"] != candidate["figures"]["ari"]


def test_partitions_of_a_file_are_streams_of_their_own(evaluated, file, tmp_path, monkeypatch):
    own = ["--partitions", "2", "--set", "stream=partition"]
    document = evaluated("--truth", "kind", *own)
    answers, _ = replayed(monkeypatch, file, tmp_path / "out", *own)
    truth = [line["kind"] for line in lines()]
    each = []
    for partition in (0, 1):
        mine = [answer for answer in answers if answer["source"]["partition"] == partition]
        # Rows without a key take turns.
        names = [answer["cluster"] or "" for answer in mine]
        each.append(metrics.adjusted_rand_score(truth[partition::2], names))
    assert document["candidates"][0]["streams"] == 2
    assert document["candidates"][0]["figures"]["ari"] == pytest.approx(np.mean(each))
    assert "figures are means over 2 streams, weighted by their records" in document["notes"]


def test_a_swept_setting_is_a_grid_with_the_engines_that_have_it(evaluated):
    document = evaluated("--truth", "kind", "-e", "caea", "-e", "evq", "--sweep", "engine.lambda=20,40")
    assert [one["name"] for one in document["candidates"]] == ["caea lambda=20", "caea lambda=40", "evq"]
    assert document["candidates"][0]["settings"] == {"engine.name": "caea", "engine.lambda": "20"}
    assert document["notes"] == []
    best = document["best"]
    ranked = sorted((one["figures"]["ari"] for one in document["candidates"]), reverse=True)
    assert (best["by"], best["value"], best["next_value"]) == ("ari", *ranked[:2])


def test_an_engine_without_the_parameters_of_the_settings_begins_with_its_defaults_and_says_so(evaluated):
    document = evaluated("--truth", "kind", "-e", "modal", "-e", "evq", "--set", "engine.valley=0.4")
    plain = evaluated("--truth", "kind", "-e", "evq")["candidates"][0]["figures"]
    assert document["candidates"][1]["figures"]["ari"] == plain["ari"]
    assert document["notes"] == ["evq begins with its own defaults, without the settings engine.valley"]


def test_candidates_in_processes_give_the_same_figures(evaluated, file, printed):
    options = ("--truth", "kind", "-e", "caea", "-e", "evq")
    one = evaluated(*options)
    two = orjson.loads(printed(run, "evaluate", file, *GIVEN, *SMALL, "--processes", "2", "--json", *options).out)
    for document in (one, two):
        for candidate in document["candidates"]:
            candidate["figures"].pop("microseconds")
    assert one["candidates"] == two["candidates"]


def test_the_tables_fit_80_columns_and_the_last_line_names_the_best(file, monkeypatch, capsys):
    options = ("--truth", "kind", "-e", "caea", "-e", "evq", "--shuffle", "1")
    assert run(monkeypatch, "evaluate", file, *GIVEN, *SMALL, "--processes", "1", *options) == 0
    incidents, _, rest = capsys.readouterr().out.partition("\n\n")
    assert incidents.startswith("severity  state")
    # These records have no time.
    assert "machines: drifted, net.in 4.26, usually 2.01" in incidents
    *lines, last = rest.splitlines()
    assert max(map(len, lines)) <= 80
    for word in ("ARI", "one cluster", "k-means, k = 3", "events/1,000", "shuffled, mean"):
        assert word in rest
    assert last.startswith("best of 2 by ari: ")
    assert "; next is " in last
    assert re.search(
        r"; k-means, k = 3, fitted on the first half, has [0-9.]+; all this is of all [0-9,]+ records$", last
    )


def test_a_bound_that_is_missed_has_an_exit_code_of_its_own(evaluated, file, monkeypatch, capsys):
    evaluated("--truth", "kind", "--fail-under", "ari=.5", "--fail-over", "events=50")
    evaluated("--truth", "kind", "--fail-under", "ari=.999", expected=MISSED)
    assert run(monkeypatch, "evaluate", file, *GIVEN, *SMALL, "--truth", "kind", "--fail-over", "events=0.1") == MISSED
    assert "is over 0.1" in capsys.readouterr().err.splitlines()[-1]


def test_a_column_of_csv_is_the_truth_without_being_learned(evaluated, tmp_path, monkeypatch, capsys):
    with (tmp_path / "rows.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "kind"])
        for line in lines():
            writer.writerow([line["cpu"], line["latency_ms"], line["net"]["in"], line["kind"]])
    own = ["--map", "a", "--map", "b", "--map", "c", "--set", 'input.features=["a","b","c"]', *SMALL]
    assert run(monkeypatch, "evaluate", "rows.csv", *own, "--truth", "kind", "--json", "--processes", "1") == 0
    found = orjson.loads(capsys.readouterr().out)["candidates"][0]["figures"]
    expected = evaluated("--truth", "kind")["candidates"][0]["figures"]
    for name in ("ari", "events", "novelty"):
        assert found[name] == expected[name]


def test_secrets_are_masked_in_the_command_that_is_shown(evaluated):
    ways = [["--set", ""], ["--set="], ["-s", ""], ["-s"], ["--"]]
    names = [f"{of}.password" for of in ("sasl", "ssl.key", "ssl.keystore")]
    names += [f"sasl.oauthbearer.{name}" for name in ("client.secret", "config")]
    given = [(*way[:-1], f"{way[-1]}broker.librdkafka.{name}=hunter2") for way, name in zip(ways, names, strict=True)]
    document = evaluated("--truth", "kind", *chain.from_iterable(given))
    assert "hunter2" not in orjson.dumps(document).decode()
    for name in names:
        assert f"broker.librdkafka.{name}=***" in document["command"]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--truth", "knd"], 2, "no record has a member there that says what it truly is (did you mean kind?)"),
        (["--truth", "cpu"], 2, "is a feature that the models learn"),
        (["--sweep", "engine.valy=1"], 2, "must be one of the parameters"),
        (["--sweep", "engine.valley"], 2, "write it as KEY=VALUE,VALUE"),
        (["--engine", "nope"], 2, "engine.name = 'nope'"),
        (["--fail-under", "arix=.7"], 2, "arix is no figure (did you mean ari?)"),
        (["--fail-under", "ari=high"], 2, "write it as ari=NUMBER"),
        (["--fail-under", "ari=nan"], 2, "write it as ari=NUMBER"),
        (["--fail-under", "ari=.7"], 2, "has no such figure"),
        (["--last", "10m"], 2, "are for topics"),
        (["--set", "limits.record_bytes=1000", "--set", "input.time_path=kind"], 2, "could be used (bad_time 1,200)"),
    ],
    ids=str,
)
def test_what_cannot_be_evaluated_ends_in_a_sentence(options, code, text, file, monkeypatch, capsys):
    assert run(monkeypatch, "evaluate", file, *GIVEN, *SMALL, "--processes", "1", *options) == code
    (last,) = capsys.readouterr().err.splitlines()[-1:]
    assert last.startswith("error: ")
    assert text in last


@pytest.mark.parametrize("options", [(), ("--truth", "kind")])
def test_a_file_without_records_ends_in_a_sentence(options, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty.csv").write_text("cpu,latency_ms,net.in,kind\n")
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "evaluate", "empty.csv", *GIVEN, *options) == 66
    assert capsys.readouterr().err.endswith("error: empty.csv holds no records; there is nothing to evaluate\n")


def test_one_class_is_evaluated_with_a_remark(tmp_path, monkeypatch, capsys):
    rows = [{**line, "kind": "same"} for line in lines(400)]
    (tmp_path / "one.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "evaluate", "one.jsonl", *GIVEN, *SMALL, "--truth", "kind", "--processes", "1") == 0
    assert "the truth has one class" in capsys.readouterr().out


def test_ami_is_left_out_with_a_remark_where_it_would_take_too_long(evaluated, file, monkeypatch, capsys, printed):
    options = ("--truth", "kind", "-e", "caea", "-e", "evq")
    expected = [one["figures"] for one in evaluated(*options)["candidates"]]
    monkeypatch.setattr("resonance.pipeline.evaluate.figures.AMI_STEPS", 1_200 * 3 - 1)
    document = evaluated(*options, anew=True)
    DOCUMENTS.pop(options)
    assert [remark for remark in document["notes"] if "AMI" in remark] == [
        "AMI is left out for caea, evq: records times clusters (or classes, if fewer) are more than 200,000,000"
    ]
    for one, before in zip(document["candidates"], expected, strict=True):
        assert one["figures"]["ami"] is None
        assert one["figures"]["ari"] == before["ari"]
        # In the first window there are fewer classes.
        assert one["windows"][0]["ami"] is not None
    one = ("evaluate", file, *GIVEN, *SMALL, "--processes", "1", "--truth", "kind", "-e", "evq")
    assert "AMI is left out" in printed(run, *one).out
    assert run(monkeypatch, *one, "--fail-under", "ami=.5") == 2
    assert "has no such figure" in capsys.readouterr().err


def test_a_missing_file_and_a_missing_broker_end_in_a_sentence(tmp_path, monkeypatch, printed):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "evaluate", "gone.jsonl", *GIVEN) == 66
    away = ("--broker", "127.0.0.1:1", "--set", "broker.answer_timeout=1")
    assert "no Kafka broker answers" in printed(run, "evaluate", "machines", *GIVEN, *away, code=69).err


def test_nested_columns_of_parquet_are_members_and_others_end_in_a_sentence(
    evaluated, tmp_path, monkeypatch, capsys, printed
):
    rows = list(lines())
    columns = {name: [row[name] for row in rows] for name in ("cpu", "latency_ms", "net", "kind")}
    parquet.write_table(pyarrow.table(columns), tmp_path / "nested.parquet")
    own = (*GIVEN, *SMALL, "--truth", "kind", "--processes", "1")
    found = orjson.loads(printed(run, "evaluate", "nested.parquet", *own, "--json").out)["candidates"][0]["figures"]
    assert found["ari"] == evaluated("--truth", "kind")["candidates"][0]["figures"]["ari"]
    parquet.write_table(pyarrow.table(columns | {"odd": [b"\xff"] * len(rows)}), tmp_path / "odd.parquet")
    assert run(monkeypatch, "evaluate", "odd.parquet", *own) == 2
    assert "column odd is of type binary, which JSON has no like of" in capsys.readouterr().err


def test_long_names_of_a_grid_are_numbered_below_the_tables(file, monkeypatch, capsys):
    options = ("-e", "caea", "--sweep", "engine.lambda=20,40", "--sweep", "engine.min_cluster_records=5,20")
    assert run(monkeypatch, "evaluate", file, *GIVEN, *SMALL, "--processes", "1", "--truth", "kind", *options) == 0
    out = capsys.readouterr().out.partition("\n\n")[2]
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert out.splitlines()[-2] == "4: caea lambda=40 min_cluster_records=20"
    assert "\n4: caea  " in out
