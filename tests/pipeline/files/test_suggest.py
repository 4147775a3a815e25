"""Settings are guessed from records without a description."""

import tomllib

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.suggest import as_file, suggest
from resonance.pipeline.files.survey import FEW, MAX_COLUMNS, MAX_NAMES, SAMPLE, FileSurvey


def flows(count=60):
    return [
        {
            "id": f"r{n}",
            "customer_id": n % 7,
            "ts": "2026-01-05T08:00:00Z",
            "country": "DE" if n % 2 else "FR",
            "note": f"text {n}",
            "response_time": n / 7,
            "geo": {"lat": 48.0 + n, "lon": None if n == 3 else 9.5},
            "active": True,
        }
        for n in range(count)
    ]


def texts(found):
    return [note.text for note in found.notes]


def test_numbers_are_features_and_names_are_not():
    found = suggest(FileSurvey(flows()))
    assert (found.features, found.id_path, found.time_path) == (["response_time", "geo.lat", "geo.lon"], "id", "ts")
    assert found.missing.startswith("missing: geo.lon in 1 of ")
    assert found.categories == {"country": ["DE", "FR"]}
    assert [note.option for note in found.notes] == [""]


def test_what_is_suggested_is_a_settings_file():
    text = as_file(suggest(FileSurvey(flows())), "flows", name="flows", broker={"bootstrap": "kafka:9092"})
    settings = Settings.of(tomllib.loads(text))
    assert settings.input.features == ("response_time", "geo.lat", "geo.lon")
    assert settings.prepare.missing == "mean"
    assert '# [prepare.categories]\n# country = ["DE", "FR"]\n' in text
    assert 'stream = "topic"  # one model for all records; "partition": one for each partition, "key": one for' in text


def test_the_key_of_each_model_is_no_category_of_it():
    seen = FileSurvey([{"host": f"h{n % 4}", "shift": "day" if n % 9 else "night", "x": n / 7} for n in range(2_000)])
    assert suggest(seen, Columns(key=("host",))).categories == {"shift": ["day", "night"]}
    assert set(suggest(seen).categories) == {"host", "shift"}


@pytest.mark.parametrize(("keys", "stream"), [(4, "key"), (5, "topic"), (600, "topic")])
def test_a_model_for_each_key_is_suggested_where_keys_come_again(keys, stream):
    seen = FileSurvey([{"host": n % keys, "x": n / 7} for n in range(2_000)])
    found = suggest(seen, Columns(key=("host",)))
    assert found.stream == stream
    assert suggest(seen).stream == suggest(seen, Columns(key=("other",))).stream == "topic"
    text = as_file(found, "flows", name="flows", broker={"bootstrap": "kafka:9092"})
    assert Settings.of(tomllib.loads(text)).stream == stream


@pytest.mark.parametrize("most", [1, 9])
def test_many_names_of_which_a_record_has_few_are_sparse(most):
    rows = [{"id": f"r{n}", "load": 0.5, "a.b": {"words": {f"w{n % 50}": most, "w3": 1}}} for n in range(100)]
    found = suggest(FileSurvey(rows))
    assert (found.features, found.sparse) == ([], r"a\.b.words")
    assert not found.missing
    text = as_file(found, "articles", name="news", broker={"bootstrap": "kafka:9092"})
    settings = Settings.of(tomllib.loads(text))
    assert (settings.input.sparse, settings.engine.name) == (r"a\.b.words", "sa_art")
    assert ("beyond 1" in text) == (most > 1)
    assert suggest(FileSurvey(rows[:30])).sparse is None


@pytest.mark.parametrize(
    ("time", "path", "feature"),
    [
        *((1767600000123, "time", False), (1767600000, None, False), ("2026-01-05 08:00:00", None, False)),
        *((0.25, None, True), ("2026-01-05T08:00:00Z", "time", False)),
    ],
)
def test_a_time_is_known_by_its_values(time, path, feature):
    found = suggest(FileSurvey([{"x": 1.0, "time": time}]))
    assert found.time_path == path
    assert ("time" in found.features) == feature
    assert bool(found.notes) == (not feature)


def test_an_array_of_numbers_is_all_the_features():
    assert suggest(FileSurvey([{"n": 1, "vector": [1, 2, 3]}])).features == "vector"


def test_an_id_that_comes_twice_is_no_id():
    assert suggest(FileSurvey([{"id": 1, "x": 1}, {"id": 1, "x": 2}])).id_path is None


def test_a_text_that_each_record_has_for_itself_is_its_id_whatever_its_name_is():
    rows = [{"site": f"s{n % 4}", "reading": f"R-{n:05}", "x": n / 7} for n in range(60)]
    found = suggest(FileSurvey(rows))
    assert found.id_path == "reading"
    text = as_file(found, "t", name="t", broker={"bootstrap": "b:1"})
    assert 'id_path = "reading"  # a text in every record, and none comes twice\n' in text
    assert Settings.of(tomllib.loads(text)).input.id_path == "reading"
    named = suggest(FileSurvey([{**row, "row_id": n} for n, row in enumerate(rows)]))
    assert (named.id_path, named.id_reason) == ("row_id", "")
    assert suggest(FileSurvey([{**row, "row_id": 7} for row in rows])).id_path == "reading"
    many = suggest(FileSurvey([{"x": n / 7, "reading": f"R-{n}"} for n in range(MAX_NAMES + 1)]))
    assert many.id_reason == "a text in every record, and none of the first 10,000 comes twice"


@pytest.mark.parametrize(
    ("value", "is_id"),
    [
        (lambda n: f"{n:06}", True),
        (lambda n: f"R-{n % 59}", False),
        (lambda n: f"R-{n}" if n else None, False),
        (lambda n: f"pump {n} is loud", False),
        (lambda n: f"{n},5", False),
        (lambda n: f"2026-01-05T08:{n:02}:00Z", False),
    ],
)
def test_a_column_whose_texts_name_no_records_is_no_id(value, is_id):
    found = suggest(FileSurvey([{"x": n / 7, "reading": value(n)} for n in range(60)]))
    assert found.id_path == ("reading" if is_id else None)


def test_a_few_records_are_no_reason_to_take_a_text_for_an_id():
    assert suggest(FileSurvey([{"x": n, "reading": f"R-{n}"} for n in range(FEW)])).id_path is None


@pytest.mark.parametrize(
    ("record", "note"),
    [
        ({"x": "a"}, "No column holds numbers: name those to use as input.features"),
        (
            {"resourceLogs": [{}]},
            "These are requests of OpenTelemetry: set input.format = otlp_logs and its features (docs/data.md)",
        ),
    ],
)
def test_records_without_numbers_are_reported(record, note):
    found = suggest(FileSurvey([record]))
    assert texts(found) == [note]
    assert "features" not in as_file(found, "t", name="t", broker={"bootstrap": "b:1"}).partition("\n#")[0]


def test_the_settings_log_in_as_those_that_were_given():
    given = {"sasl.username": "me", "sasl.password": "p"}
    broker = Settings.of({"input.topics": ["t"], "broker.librdkafka": given}).dump()["broker"]
    text = as_file(suggest(FileSurvey(flows())), "t", name="t", broker=broker)
    assert '[broker.librdkafka]\n"sasl.username" = "me"\n# "sasl.password" is set, and not shown\n' in text


def test_a_few_texts_among_numbers_are_reported():
    found = suggest(FileSurvey([{"x": "n/a" if n == 7 else n, "mostly": n if n < 3 else "text"} for n in range(40)]))
    assert found.features == ["x"]
    assert texts(found) == ["x is no number in 1 of 40 records, such as 'n/a': these would be dead letters"]


def test_what_comes_late_is_in_the_suggestion_too():
    survey = FileSurvey(flows())
    late = [{**record, "country": "IT", "host": {"up": 1}} for record in flows(40)]
    late[7] = {**late[7], "response_time": "n/a", "geo": None, "": 5}
    late[8] = {**late[8], "response_time": {"ms": "none"}, "geo": {}}
    for _ in range(30):
        survey.add(late[:20])
        survey.add(late[20:])
    found = suggest(survey)
    assert [*found.features, *found.left_out] == ["response_time", "geo.lat", "geo.lon", "host.up"]
    assert found.categories == {"country": ["DE", "FR", "IT"]}
    assert found.id_path is None, "they came again"
    assert found.missing
    assert "response_time is no number in 30 of 1,260 records, such as 'n/a': these would be dead letters" in texts(
        found
    )


def readings(count=400):
    return [
        {
            "load": n % 60 / 7,
            "firmware": 3,
            "fault": 1 if n == 9 else 0,
            "mode": 1 + n % 3,
            "code": (200, 404, 500, 503, 504)[n % 5],
            "items": n % 7,
            "flag": n % 2,
        }
        for n in range(count)
    ]


def test_columns_that_say_nothing_and_integers_that_name_kinds_are_left_out_with_the_reason():
    found = suggest(FileSurvey(readings()))
    assert found.features == ["load", "items", "flag"]
    assert found.left_out == {
        "firmware": "3 in all records",
        "fault": "0 or 1: labels, for evaluate --truth",
        "mode": "3 different integers, which may name kinds",
        "code": "5 different integers, which may name kinds",
    }
    assert found.categories == {"mode": ["1", "2", "3"], "code": ["200", "404", "500", "503", "504"]}
    text = as_file(found, "t", name="t", broker={"bootstrap": "b:1"})
    assert "#   firmware: 3 in all records\n" in text
    assert '# [prepare.categories]\n# mode = ["1", "2", "3"]\n' in text
    assert "left out of the features: firmware (3 in all records), mode" in found.findings[-1].text
    many = suggest(FileSurvey([{"x": n % 60 / 7, **dict.fromkeys("abcdefghijklmnopqrstuvw", 1)} for n in range(200)]))
    assert many.findings[-1].text.endswith("t (1 in all records) and 3 more")


def test_a_column_that_counts_the_records_is_left_out_with_the_reason():
    found = suggest(FileSurvey([{"tick": 10 * n, "x": n % 7 + 0.5, "y": n * 7 % 19} for n in range(200)]))
    assert (found.features, found.left_out) == (["x", "y"], {"tick": "counts the records, in even steps"})


def test_a_column_of_one_text_is_left_out_with_the_reason():
    found = suggest(FileSurvey([{"x": n / 7, "firmware": "v2.3.1", "shift": "ab"[n % 2]} for n in range(200)]))
    assert found.findings[-1].text == "left out of the features: firmware (v2.3.1 in all records)"
    assert "#   firmware: v2.3.1 in all records\n" in as_file(found, "t", name="t", broker={"bootstrap": "b:1"})
    few = suggest(FileSurvey([{"x": n / 7, "firmware": "v2.3.1"} for n in range(99)]))
    assert not few.left_out
    assert [note.text for note in few.findings] == ["not used: firmware (v2.3.1 in all records, and no other text)"]
    gaps = suggest(FileSurvey([{"x": n / 7, "remark": "late" if n % 9 == 0 else None} for n in range(200)]))
    assert not gaps.left_out
    assert [note.text for note in gaps.findings] == ["not used: remark (late in 23 of 200 records, and no other text)"]


def test_times_that_only_kafka_can_have_are_explained_in_the_settings():
    for time, said in (("2026-01-05 08:00:00", True), ("2026-01-05T08:00:00Z", False)):
        found = suggest(FileSurvey([{"x": 1.0, "ts": time}]), Columns(time=("ts",)))
        text = as_file(found, "t", name="t", broker={"bootstrap": "b:1"})
        assert ("with a zone, and not all of ts are" in text) == said
        assert ("time_path = " in text) != said


def test_few_records_and_columns_without_others_are_no_reason_to_leave_out_anything():
    assert len(suggest(FileSurvey(readings(99))).features) == 5, "all but the label and the version"
    assert suggest(FileSurvey([{"mode": n % 3} for n in range(200)])).features == ["mode"]


def test_texts_for_missing_numbers_are_no_category():
    found = suggest(FileSurvey([{"load": n % 97 / 7, "grade": 9 * (n % 5) if n % 20 else "N/A"} for n in range(200)]))
    assert found.categories == {"grade": ["0", "9", "18", "27", "36"]}


def test_the_file_says_which_features_are_missing_how_often():
    rows = [{"x": n, "y": None if n % 4 else 1.5 * n, "z": None if n % 9 else n * n} for n in range(200)]
    text = as_file(suggest(FileSurvey(rows)), "t", name="t", broker={"bootstrap": "b:1"})
    assert "# missing: z in 177, y in 150 of 200 records\n" in text
    assert 'clusters of their own; "reject" makes them dead letters.\n' in text


def test_a_survey_remembers_no_more_than_it_needs():
    survey = FileSurvey()
    for start in range(0, 6_000, 1_000):
        survey.add([{f"of {n}": n, "text": f"t{n}", "x": n} for n in range(start, start + 1_000)])
    assert len(survey.columns) == MAX_COLUMNS
    text = survey.columns["text"]
    assert (text.present, len(text.sample), len(text.words), text.unique) == (6_000, SAMPLE, FEW + 1, True)


@pytest.mark.parametrize("values", [(True, False), ("TRUE", "FALSE")])
def test_true_and_false_are_a_category_where_one_of_them_is_rare(values):
    rows = [{"x": n % 97 / 7, "approved": values[n % 23 == 5], "open": values[n % 3 == 0]} for n in range(900)]
    found = suggest(FileSurvey(rows))
    names = ["false", "true"] if values[0] is True else ["FALSE", "TRUE"]
    assert found.settings["input.features"] == ["x", "approved"]
    assert found.settings["prepare.categories"] == {"approved": names}
    assert [note.text for note in found.findings] == [
        "approved: true and false, one of them rare, so a category",
        "left out: open (no number, so a change in it is not seen; prepare.categories takes it)",
    ]
    assert "approved" not in found.categories
    assert f'approved = ["{names[0]}", "{names[1]}"]' in as_file(found, "t", name="t", broker={})
    assert not suggest(FileSurvey(rows), chosen=["x"]).flags


def test_texts_that_come_again_and_are_nothing_else_are_named_in_one_line():
    rows = [
        {"at": f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}Z", "box": f"b{n % 3}", "program": "abcde"[n * n % 5]}
        | {
            "route": f"r{n * n % 23}",
            "load": n % 9 / 7,
            "window": f"{n % 9}s",
            "own": f"x-{n}",
            "line": "north",
            "open": n % 7 == 0,
        }
        for n in range(1_800)
    ]
    found = suggest(FileSurvey(rows), Columns(key=("box",)))
    assert [note.text for note in found.findings if note.text.startswith("left out: ")] == [
        "left out: program, route, open (no number, so a change in them is not seen; prepare.categories takes them)"
    ]
    assert suggest(FileSurvey([{k: v for k, v in row.items() if k not in ("route", "open")} for row in rows])).findings[
        -2
    ].text == ("left out: program (no number, so a change in it is not seen; prepare.categories takes it)")
    assert not suggest(FileSurvey(rows), chosen=["load"]).texts
