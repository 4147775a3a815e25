"""Files are produced whole, to the partitions of their keys, with a word on everything that is in the way."""

import json
import signal
import tomllib

import pytest
import typer
from resonance.pipeline.cli import produce as produce_command
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, DeliveryError
from resonance.pipeline.files import examination
from resonance.pipeline.files.produce import Target, _Sender, check_times, find_target, produce
from resonance.pipeline.files.rows import BATCH, FileRecord
from resonance.pipeline.kafka.embedded import PARTITIONS, EmbeddedBroker
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.partitioner import partition_of

from tests.brokers import read_topic
from tests.pipeline.commands import run as run_command
from tests.pipeline.fake_cluster import FakeCluster

DAY = 86_400_000


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as running:
        yield running


def run(monkeypatch, *arguments):
    return run_command(monkeypatch, "produce", *arguments)


def stored(broker, topic):
    return [(each.partition(), each.offset(), each.key(), each.value()) for each in read_topic(broker.bootstrap, topic)]


def test_each_record_goes_to_the_partition_of_its_key(monkeypatch, capsys, tmp_path, broker):
    rows = [("a", 1), ("b", 2), ("", 3), ("a", 4), ("", 5)]
    (tmp_path / "in.csv").write_text("host,x\n" + "".join(f"{host},{x}\n" for host, x in rows))
    assert run(monkeypatch, "in.csv", "-t", "keyed", "--broker", broker.bootstrap, "--key", "host", "--json") == 0
    keys = [host.encode() or None for host, _ in rows]
    places = [partition_of(key, PARTITIONS, index) for index, key in enumerate(keys)]
    found = stored(broker, "keyed")
    assert [(partition, key, json.loads(value)["x"]) for partition, _, key, value in found] == sorted(
        [(place, key, x) for place, key, (_, x) in zip(places, keys, rows, strict=True)],
        key=lambda row: (row[0], row[2]),
    )
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert (summary["topic"], summary["records"], summary["skipped"]) == ("keyed", 5, 0)
    assert summary["partitions"] == {str(p): places.count(p) for p in range(PARTITIONS)}
    assert "produced 5 records of in.csv on keyed in" in said.err
    assert 'topics = ["keyed"]\nfeatures = ["x"]' in said.err


def test_a_table_says_how_many_records_each_partition_got(tmp_path, broker, printed):
    (tmp_path / "in.jsonl").write_text('{"x": 1}\nnonsense\n' * 6)
    options = ["--skip-bad", "--limit", "5", "--rate", "1000", "--input.features", "x"]
    said = printed(run, "in.jsonl", "-t", "turns", "--broker", broker.bootstrap, *options)
    *table, below = said.out.splitlines()
    assert [line.split() for line in table] == [
        ["partition", "records"],
        *(["0", "2"], ["1", "1"], ["2", "1"], ["3", "1"]),
    ]
    assert below.startswith("produced 5 records of in.jsonl on turns in ")
    assert "6 bad lines left out" in below
    assert "resonance.toml" not in said.err, "the settings say where the features stand"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "geo.lat,geo.lon,no.\n1,2,3\n", "geo.lat, geo.lon: dots in names make objects, such as"),
        ("a.json", '{"0": {"a": 1}, "1": {"a": 2}}', "the file is a single record; if it holds several, write each"),
        ("a.json", '{"a": 1, "b": 2}', ""),
        ("a.jsonl", '{"geo": {"lat": 1}}\n{"geo": {"lat": 2}}\n', ""),
    ],
)
def test_records_that_may_be_others_than_the_file_seems_to_hold_are_noted(tmp_path, printed, name, content, said):
    (tmp_path / name).write_text(content)
    assert printed(run, name, "--dry-run").err.count(f"note: {said}") == bool(said)


def test_a_dry_run_needs_no_broker(tmp_path, printed):
    (tmp_path / "my flows.csv").write_text("host,x\n" + "a,1\n" * 5)
    said = printed(run, "my flows.csv", "--dry-run", "--key", "host", "--map", "m.x=x")
    assert said.out.splitlines() == ['a: {"m":{"x":1}}'] * 3
    assert 'name = "my-flows"' in said.err
    shown = json.loads(printed(run, "my flows.csv", "--dry-run", "--json").out)
    assert shown["records"][0] == {"key": None, "timestamp": None, "value": {"host": "a", "x": 1}}
    assert 'features = ["x"]' in shown["settings"]


def test_the_suggestion_knows_all_that_is_produced(monkeypatch, tmp_path, broker, printed):
    rows = [f"{'late' if n >= 2_400 else f's{n % 2}'},{'oops' if n in (2_200, 2_700) else n}" for n in range(3_000)]
    (tmp_path / "in.csv").write_text("\n".join(["site,x", *rows]) + "\n")
    for options, records, words, strange in (
        ([], 3_000, '"late", "s0", "s1"', 2),
        (["--limit", "2300"], 2_300, '"s0"', 1),
    ):
        said = printed(run, "in.csv", "-t", "late", "--broker", broker.bootstrap, *options).err
        assert f"site = [{words}" in said
        assert f"x is no number in {strange} of {records:,} records, such as 'oops'" in said
        assert "From the first" not in said
    monkeypatch.setattr(examination, "EXAMINED", BATCH)
    assert "# From the first 2,000 records; without --dry-run" in printed(run, "in.csv", "--dry-run").err
    said = printed(run, "in.csv", "--dry-run", "--limit", "2")
    assert len(said.out.splitlines()) == 2
    assert "From the first" not in said.err


def test_what_is_in_the_way_is_shown_before_anything_is_sent_and_what_comes_later_at_the_end(
    monkeypatch, capsys, tmp_path, broker, printed
):
    rows = [f"{'N/A' if n == 7 else n % 700},{'none' if n == 2_500 else n % 80 / 7}" for n in range(3_000)]
    (tmp_path / "in.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    assert run(monkeypatch, "in.csv", "-t", "seen", "--broker", "127.0.0.1:1", "--broker.answer_timeout", "1") != 0
    assert "note: x is no number in 1 of 3,000 records, such as 'N/A': these would" in capsys.readouterr().err
    monkeypatch.setattr(examination, "EXAMINED", BATCH)
    said = printed(run, "in.csv", "-t", "seen", "--broker", broker.bootstrap)
    assert "produced 3,000 records" in said.out
    before = after = said.err
    assert before.index("note: x is") < before.index("note: y is no number in 1 of 3,000 records, such as 'none'")
    assert "days of a backlog mix" in before
    assert after.count("note: ") == 3


@pytest.mark.parametrize("way", ["--yes", "terminal", "refused"])
def test_the_options_that_the_notes_name_are_taken_where_the_user_wants(monkeypatch, capsys, tmp_path, broker, way):
    times = ["2026-01-05 08:00:00", "2026-01-05T08:00:01Z"]
    (tmp_path / "in.csv").write_text("t,x\n" + "".join(f"{times[n % 2]},{'N/A' if n == 3 else n}\n" for n in range(9)))
    questions = []

    def confirm(text, *, default, err):
        questions.append(text.strip())
        return default and way == "terminal"

    monkeypatch.setattr(typer, "confirm", confirm)
    monkeypatch.setattr(produce_command, "_on_terminal", lambda: way != "--yes")
    options = ["in.csv", "-t", f"wanted-{way.strip('-')}", "--broker", broker.bootstrap, "--save-settings", "r.toml"]
    assert run(monkeypatch, *options, *(["--yes"] if way == "--yes" else [])) == 0
    saved = (tmp_path / "r.toml").read_text()
    taken = f"# For the records of: resonance produce in.csv --topic wanted-{way.strip('-')} --null N/A --time t\n"
    assert saved.startswith(taken) == (way != "refused")
    assert ('missing = "mean"' in saved) == (way != "refused")
    asked_for = ["read as missing: --null N/A?", "as Kafka timestamps, in UTC where no zone is named: --time t?"]
    assert questions == ([] if way == "--yes" else asked_for)
    assert "note: t has times that input.time_path cannot read" in capsys.readouterr().err


@pytest.mark.parametrize("settings", [[], ["--input.features", "x,y"]])
def test_many_dead_letters_are_sent_only_on_demand_without_a_terminal(tmp_path, broker, settings, printed):
    rows = [f"{'N/A' if n % 150 == 0 else n},{'N/A' if n % 150 == 1 else n / 7}" for n in range(3_000)]
    (tmp_path / "in.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    topic = f"unasked-{len(settings)}"
    options = ["in.csv", "-t", topic, "--broker", broker.bootstrap, *settings]
    said = printed(run, *options, code=2).err
    assert "x and y are no numbers in up to 40 of 3,000 records" in said
    assert "up to 40 of 3,000 records would be dead letters" in said.splitlines()[-1]
    assert "or --yes, which takes" in said.splitlines()[-1]
    assert topic not in said
    assert "produced 3,000 records" in printed(run, *options, "--yes").out
    assert b"N/A" not in b"".join(value for *_, value in stored(broker, topic))


def test_a_feature_that_no_record_has_keeps_a_file_from_being_sent(monkeypatch, tmp_path, printed):
    (tmp_path / "in.csv").write_text("heat\n" + "1\n" * 20)
    options = ["in.csv", "--broker", "127.0.0.1:1", "--broker.answer_timeout", "1"]
    monkeypatch.setenv("RESONANCE_INPUT__FEATURES", "haet")
    assert "up to 20 of 20 records would be dead letters" in printed(run, *options, code=2).err
    assert run(monkeypatch, *options, "--prepare.missing", "mean") == 69


def test_who_stops_at_a_question_has_produced_nothing(monkeypatch, tmp_path, printed):
    (tmp_path / "in.csv").write_text("x\nN/A\n" + "1\n" * 20)

    def confirm(*_, **__):
        raise typer.Abort

    monkeypatch.setattr(typer, "confirm", confirm)
    monkeypatch.setattr(produce_command, "_on_terminal", lambda: True)
    assert printed(run, "in.csv", "--broker", "127.0.0.1:1", code=130).err.endswith("stopped; nothing was changed\n")


def test_the_next_command_reads_the_file_in_the_same_way(monkeypatch, capsys, tmp_path):
    (tmp_path / "in.csv").write_text("h,x\na,1\nb,N/A\n")
    options = ["--key", "h", "--null", "N/A", "--map", "a.x=x", "--map", "h", "--decimal", ","]
    assert run(monkeypatch, "in.csv", "--dry-run", "--save-settings", "resonance.toml", *options) == 0
    words = "--map a.x=x --map h=h --null N/A --key h --decimal ,"
    assert f"next: resonance replay in.csv {words}\n" in capsys.readouterr().err
    assert run(monkeypatch, "in.csv", "--dry-run", "--decimal", "x") == 2
    assert "--decimal x: it must be a point or a comma" in capsys.readouterr().err


def test_the_settings_are_saved_but_never_over_a_file(monkeypatch, capsys, tmp_path, broker, printed):
    (tmp_path / "in.csv").write_text("host,x\n" + "a,1\n" * 5)
    options = ["in.csv", "-t", "saved", "--broker", broker.bootstrap, "--save-settings"]
    for file, command in (
        ("resonance.toml", "resonance replay in.csv"),
        ("my s.toml", "resonance replay in.csv --config 'my s.toml'"),
    ):
        said = printed(run, *options, file, "--dry-run").err
        assert said.endswith(f"settings saved to {file}; next: {command}\n")
        assert "features" not in said
        (tmp_path / file).rename(tmp_path / "old.toml")
    settings = Settings.load(tmp_path / "old.toml")
    assert (settings.input.topics, settings.input.features) == (("saved",), ("x",))
    for file, why in (("old.toml", "it is there already"), ("no/a.toml", "there is no folder no")):
        assert f"--save-settings {file}: {why}" in printed(run, *options, file, code=2).err
    assert run(monkeypatch, *options, "b.toml", "--input.features", "x") == 2
    assert "input.features is set, so nothing is suggested" in capsys.readouterr().err
    assert "features" in (tmp_path / "old.toml").read_text()


@pytest.mark.parametrize(
    ("content", "options", "code", "said"),
    [
        ("host,x\na,1\n", ["--key", "hots"], 2, "no column hots (did you mean host?)"),
        ("host,x\na,1\n", ["--map", "=x"], 2, "--map =x: write it as NAME=COLUMN"),
        ("host,x\na,1\n", ["--map", "x", "--map", "x=host"], 2, "x is given twice"),
        ("host,x\na,1\n", ["--key", "host", "--key", "host"], 2, "--key: host is given twice"),
        ("host,x\n", [], 66, "holds no records"),
        ("host,x\n1\n", ["--skip-bad"], 66, "holds no records, and 1 bad line"),
        ("", [], 66, "is empty"),
        ("host,x\na\n", [], 66, "in.csv, line 2: 1 cell where the header has 2"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported_before_anything_is_produced(
    tmp_path, content, options, code, said, printed
):
    (tmp_path / "in.csv").write_text(content)
    assert said in printed(run, "in.csv", "-t", "t", "--broker", "127.0.0.1:1", *options, code=code).err


def test_a_missing_topic_is_offered_the_nearest_and_the_way_to_make_it():
    cluster = FakeCluster({"flows": (3, {})})
    with pytest.raises(BrokerError, match=r"did you mean flows\?\); add --create-partitions N .*--topic flow --part"):
        find_target(cluster, "flow")
    assert find_target(cluster, "flow", 6) == Target("flow", 6, created=True)
    assert find_target(cluster, "other", 2, own_times=True).created
    every = {"cleanup.policy": "delete"}
    assert (cluster.topics["flow"], cluster.topics["other"]) == ((6, every), (2, {**every, "retention.ms": "-1"}))


def test_records_that_would_be_deleted_at_once_are_refused():
    config = {"message.timestamp.type": "CreateTime", "max.message.bytes": "2000000"}
    cluster = FakeCluster({"flows": (3, config)})
    target = find_target(cluster, "flows")
    assert target == Target("flows", 3, 2_000_000, 7 * DAY)
    records = [FileRecord(None, b"{}", None), FileRecord(None, b"{}", 30 * DAY)]
    check_times(target, records, cluster, now_ms=36 * DAY)
    old = r"30 days old and flows keeps records for 7\.0 days, so Kafka would delete them within minutes; "
    ways = r"produce into a new topic, which keeps them: --topic flows-2 --create-partitions 3; or .*name flows "
    with pytest.raises(ConfigurationError, match=rf"{old}leave --time out \(input\.time_path.*\); {ways}"):
        check_times(target, records, cluster, now_ms=60 * DAY)
    with pytest.raises(ConfigurationError, match=old + ways):
        check_times(target, records, cluster, now_ms=60 * DAY, time_path_reads=False)
    for harmless in ({"retention.ms": "-1"}, {"message.timestamp.type": "LogAppendTime"}):
        harmless_target = find_target(FakeCluster({"flows": (3, config | harmless)}), "flows")
        check_times(harmless_target, records, cluster, now_ms=60 * DAY)


def test_times_that_the_topic_does_not_take_are_refused_with_its_setting():
    limits = {"message.timestamp.before.max.ms": str(10 * DAY), "message.timestamp.after.max.ms": "3600000"}
    own = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"} | limits
    cluster = FakeCluster({"flows": (3, own), "late": (3, own | {"message.timestamp.type": "LogAppendTime"})})
    records = [FileRecord(None, b"{}", None), FileRecord(None, b"{}", 30 * DAY)]
    for now_ms, said in (
        (41 * DAY, r"11\.0 days old, and flows takes 10\.00 \(message\.timestamp\.before\.max\.ms\): correct"),
        (29 * DAY, r"1\.0 days ahead of now, and flows takes 0\.04 \(message\.timestamp\.after\.max\.ms\): .* leave"),
    ):
        with pytest.raises(ConfigurationError, match=rf"up to {said}.*or let the topic take them, .*name flows "):
            check_times(find_target(cluster, "flows"), records, cluster, now_ms=now_ms)
        check_times(find_target(cluster, "late"), records, cluster, now_ms=now_ms)
    check_times(find_target(cluster, "flows"), records, cluster, now_ms=30 * DAY)


def test_the_first_moment_of_1970_is_no_time_of_now(broker):
    broker.create(["old"])
    records = [FileRecord(b"k", b"{}", 0), FileRecord(b"k", b"{}", 5)]
    produce(broker.client_settings(), Target("old", PARTITIONS), [records])
    at = "old", partition_of(b"k", PARTITIONS, 0)
    with LogReader(broker.client_settings(), "test", 10.0) as reader:
        found = [record.timestamp for _, part in reader.read({at: (0, 2)}) for record in part]
    assert found == [1, 5]


def test_a_record_that_the_topic_does_not_take_is_named(broker):
    broker.create(["small"])
    target = Target("small", PARTITIONS, message_bytes=1000)
    records = [FileRecord(None, b"{}", None), FileRecord(None, bytes(1_500_000), None)]
    with pytest.raises(DeliveryError, match=r"small: record 2, 1,500,000 bytes, was refused .*too large"):
        produce(broker.client_settings(), target, [records])


def test_a_bad_line_in_the_middle_is_reported_with_what_is_stored_by_then(monkeypatch, capsys, tmp_path, broker):
    monkeypatch.setattr(examination, "EXAMINED", BATCH // 2)
    rows = ["1"] * 2 * BATCH + ["1,2"] + ["1"] * 5
    (tmp_path / "in.csv").write_text("\n".join(["x", *rows]) + "\n")
    assert run(monkeypatch, "in.csv", "-t", "half", "--broker", broker.bootstrap) == 66
    count = len(stored(broker, "half"))
    assert 0 < count <= 2 * BATCH
    said = capsys.readouterr().err
    assert f"in.csv, line {2 * BATCH + 2:,}: 2 cells where the header has 1; correct it, or" in said
    assert f"; {count:,} records before it are on half already, so produce into a new topic, or the rest only" in said


@pytest.mark.parametrize("options", [(), ("--input.features=x", "--set", "stream=key")])
def test_records_without_a_key_are_noted_before_they_are_produced(monkeypatch, capsys, tmp_path, options, printed):
    rows = "".join(f"{'' if n % 10 == 0 else n % 3},{n % 7}.5\n" for n in range(2_000))
    (tmp_path / "in.csv").write_text(f"device,x\n{rows}")
    assert run(monkeypatch, "in.csv", "--key", "device", "--dry-run", *options) == 0
    assert "note: device is empty in 200 of 2,000 records: without a key these would be dead" in capsys.readouterr().err
    assert "is empty" not in printed(run, "in.csv", "--dry-run").err


def test_a_column_that_varies_late_is_a_feature_after_all(monkeypatch, tmp_path, broker, printed):
    monkeypatch.setattr(examination, "EXAMINED", BATCH // 2)
    rows = "".join(f"{n % 7}.5,{n % 13}.5,{int(n > BATCH) * (n % 2) * 1.5}\n" for n in range(2 * BATCH))
    (tmp_path / "late.csv").write_text(f"a,b,late\n{rows}")
    options = ("--broker", broker.bootstrap, "--save-settings", "late.toml")
    said = printed(run, "late.csv", "-t", "late", *options).err
    assert "note: left out of the features: late (0 in all records)" in said
    assert "note: late: a feature after all, because later records differ" in said
    assert tomllib.loads((tmp_path / "late.toml").read_text())["input"]["features"] == ["a", "b", "late"]


def test_without_any_settings_the_topic_has_the_name_of_the_file(tmp_path, broker, printed):
    (tmp_path / "my-orders.csv").write_text("x\n1\n2\n")
    options = ("--broker", broker.bootstrap, "--create-partitions", "4", "--save-settings", "resonance.toml")
    assert "produced 2 records of my-orders.csv on my-orders" in printed(run, "my-orders.csv", *options).out
    assert tomllib.loads((tmp_path / "resonance.toml").read_text())["input"]["topics"] == ["my-orders"]


def test_that_a_backlog_will_mix_is_noted_before_it_is_sent(monkeypatch, capsys, tmp_path, broker, printed):
    (tmp_path / "one.csv").write_text("host,x\n" + "a,1\n" * 500)
    for more, noted in (((), True), (("--key", "host"), False)):
        options = ("-t", f"mixed-{noted}", "--broker", broker.bootstrap, "--create-partitions", "4", *more)
        said = printed(run, "one.csv", *options).err
        assert ("days of a backlog mix; --create-partitions 1 keeps their order" in said) == noted
        assert run(monkeypatch, "one.csv", "-t", f"mixed-{noted}", "--broker", broker.bootstrap, *more) == 0
        again = f"mix; --topic mixed-{noted}-2 --create-partitions 1 keeps"
        assert (again in capsys.readouterr().err) == noted


@pytest.fixture
def _interruptible():
    # A shell that runs tests in the background lets them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_stops_it_is_reported_what_is_stored(monkeypatch, capsys, tmp_path, broker, number, code):
    (tmp_path / "in.csv").write_text("x\n" + "1\n" * 10)

    def stop(*_):
        signal.raise_signal(number)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(_Sender, "wait_until", stop)
    assert run(monkeypatch, "in.csv", "-t", "cut", "--broker", broker.bootstrap, "--rate", "20") == code
    assert "stopped after 1 record of in.csv on cut" in capsys.readouterr().out
    monkeypatch.setattr(_Sender, "flush", stop)
    assert run(monkeypatch, "in.csv", "-t", "cut", "--broker", broker.bootstrap) == code
    assert "stopped before the broker had confirmed all: cut may hold a part of in.csv" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before
