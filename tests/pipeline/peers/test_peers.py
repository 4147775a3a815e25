"""A fleet of devices in one deployment, of which one breaks, and what `resonance inspect --peers` says."""

import re
from datetime import datetime

import numpy as np
import orjson
import pytest
from resonance.pipeline.cli import inspect
from resonance.pipeline.cli.peers import in_words, show
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.inspect.listing import read_states
from resonance.pipeline.kafka.log_reader import RestoreCancelledError
from resonance.pipeline.peers import peers, recent
from resonance.pipeline.peers.peers import ComparedStreams, FeatureBound, UnlikeFeature, compare_streams
from resonance.pipeline.records import Message, Record
from resonance.pipeline.repartition.envelope import route_message

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import KEYED, MemoryDeployment
from tests.pipeline.streams import STAMP, TOPIC

OPTIONS = ("inspect", "--topics", "features", "--name", "resonance")
NONE = "none of {} streams is unlike its peers in its recent records\n"
KINDS = "kinds of work, each compared by itself, too: temp is up to 22; temp is above 22\n"
FEATURES = ["temp", "vibration", "setting"]
STEADY = {"engine__landmarks": None, "engine__memory": None, "engine__expire_records": None}
"""The engine as users have it: it knows a new state for long enough that alerts clear."""

PLAIN = {"engine__min_cluster_records": None, "engine__lambda": None, "prepare__warmup_records": None}


def values(device, records, broken=3, begin=500, factor=12):
    """Records of a device with two states; of the broken one the vibration grows."""
    rng = np.random.default_rng(device)
    busy = rng.integers(2, size=records)
    noise = rng.normal(size=(2, records))
    rows = np.column_stack([20 + 5 * busy + 0.3 * noise[0], 1 + busy + 0.1 * noise[1], np.full(records, 3)])
    if device == broken:
        rows[begin:, 1] *= factor
    return rows


def fleet(monkeypatch, devices=12, records=300, begin=40, partitions=1, shown=(), factor=12, **changed):
    """A deployment that holds the records of all devices, which come in turns; `shown` are further members of one."""
    given = {"input__features": FEATURES, "prepare__warmup_records": 60, **changed}
    deployment = MemoryDeployment(monkeypatch, partitions, 0, **given)
    rows = [values(device, records, begin=begin, factor=factor) for device in range(devices)]
    for number in range(records):
        for device in range(devices):
            own = dict(zip(FEATURES, rows[device][number].tolist(), strict=True))
            own |= {"country": f"dev{device}", "id": f"{device}-{number}", **(shown[device] if shown else {})}
            content = {name: value for name, value in own.items() if value is not None}
            message = Message(b"dev%d" % device, orjson.dumps(content), [])
            stamp = STAMP + 1_000 * (devices * number + device)
            deployment.append((TOPIC, device % partitions), message, timestamp=stamp)
    return deployment


def compared(deployment):
    return compare_streams(deployment.given, deployment, read_states(deployment.source, deployment))


def named(found):
    return [(each.stream, each.feature, each.change) for each in found.unlike]


def test_a_device_that_stays_broken_is_named_though_its_alert_has_cleared(monkeypatch, printed):
    deployment = fleet(monkeypatch, records=1_200, begin=500, prepare__warmup_records=200, **STEADY)
    deployment.work(12 * 400, everything=True)
    assert compared(deployment).unlike == []
    deployment.work(12 * 1_200, everything=True)
    alerts = [orjson.loads(record.value) for record in deployment.recorded("alerts")]
    unlike = [(each["stream"], each["kind"]) for each in alerts if each["rule"] == "unlike"]
    assert unlike == [("p0:dev3", "opened"), ("p0:dev3", "cleared")]

    shown = printed(run, *OPTIONS, "--peers")
    head, line, *below = shown.out.splitlines()
    assert re.split("  +", head.strip()) == ["stream", "feature", "is", "value", "peers", "usual range", "far", "since"]
    # It broke with its record 500, which is offset 6,003.
    assert re.fullmatch(
        r"p0:dev3 +vibration +high +1\d\.\d+ +1\.\d+ +0\.\d+ to 2\.\d+ +\d\.\d+ +2023-11-14 23:5\d", line.strip()
    )
    assert shown.err == ""
    assert "\n".join([*below, ""]).replace("23", "22") == (
        "1 of 12 streams is unlike its peers in its recent records; far: how many times as far from the peers' "
        "median as is usual; from 1.5 to 5.4 on a stream is listed\n" + KINDS
    )

    content = orjson.loads(printed(run, *OPTIONS, "--peers", "--json").out)
    assert (content["streams"], content["compared"]) == (12, 12)
    (only,) = content["unlike"]
    assert set(only) == {"stream", "feature", "change", "value", "median", "low", "high", "far", "since", "by", "where"}
    assert only["low"] < only["median"] < only["high"] < only["value"]

    assert printed(run, *OPTIONS).out.endswith("its peers in its recent records: resonance inspect --peers\n")


def test_what_one_kind_of_work_alone_shows_is_named_with_it(monkeypatch, printed):
    # Twice as much as the others at rest is what they have at work.
    deployment = fleet(monkeypatch, factor=2)
    deployment.work(12 * 300, everything=True)
    shown = printed(run, *OPTIONS, "--peers")
    head, line, *_ = shown.out.splitlines()
    assert head.split()[-1] == "while"
    assert re.fullmatch(r"p0:dev3 +vibration +high .* +temp is (above|up to) 22", line.strip())
    assert shown.out.endswith(KINDS)
    assert shown.err == ""
    content = orjson.loads(printed(run, *OPTIONS, "--peers", "--json").out)
    assert content["kinds"] == [[{"feature": "temp", "side": side, "value": 22.0}] for side in ("up to", "above")]
    (only,) = content["unlike"]
    assert only["where"] in content["kinds"]
    assert in_words(
        [FeatureBound("x", "above", 1.0), FeatureBound("y", "up to", 2.0), FeatureBound("x", "up to", 3.0)]
    ) == ("x is 1 to 3 and y is up to 2")


@pytest.mark.parametrize("begin", [60, 40, 0])
def test_of_a_kind_of_work_since_is_when_its_own_records_began_to_be_so(monkeypatch, begin, printed):
    deployment = fleet(monkeypatch, factor=2, begin=begin)
    deployment.work(12 * 300, everything=True)
    # A drift from before, of what the device did at rest.
    feature = {"feature": "vibration", "change": "moved", "before": 1.0, "after": 2.0}
    unit = {"cluster": "p0:dev3/1/0", "change": ["moved"], "features": [feature]}
    drift = {"kind": "drift", "stream": "p0:dev3", "time": "2023-11-01T00:00:00.000Z", "units": [unit]}
    deployment.append((deployment.given.topic("drift_events"), 0), Message(b"dev3", orjson.dumps(drift), []))
    (only,) = compared(deployment).unlike
    assert only.where
    assert (only.since is None) is (only.by is not None) is (begin == 0)
    rows = values(3, 300, factor=2)[:, 0] > 22
    kind = np.flatnonzero(rows == (only.where[0].side == "above"))
    # A block of its kind has 20 records, of which some may be from before.
    first = kind[kind >= begin][0]
    found = (datetime.fromisoformat(only.since or only.by).timestamp() * 1_000 - STAMP) / 12_000
    assert abs(np.searchsorted(kind, found) - np.searchsorted(kind, first)) <= 20
    shown = printed(run, *OPTIONS, "--peers")
    by = "by 2023-11-14 22:1" in shown.out
    assert by is ("by: it began then or earlier" in shown.out) is (begin == 0)


@pytest.mark.parametrize(("since", "by", "said"), [
    ("2026-05-06T07:00:00.000Z", None, "2026-05-06 07:00"), (None, "2026-05-06T07:00:00.000Z", "by 2026-05-06 07:00"),
    ("1970-01-01T00:00:00.000Z", None, ""), (None, "1970-01-01T00:00:00.000Z", ""), (None, None, ""),
])  # fmt: skip
def test_records_without_times_say_nothing_of_since_when_a_stream_is_unlike_its_peers(since, by, said, capsys):
    unlike = UnlikeFeature("p0:d3", "heat", "high", 9.0, 2.0, 1.0, 3.0, 7.0, since, by, [])
    show(ComparedStreams(12, 12, [unlike]), wide=False)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].rstrip().endswith(said or " 7")
    assert ("1970" in shown.out, "by: " in shown.out + shown.err) == (False, said.startswith("by"))


def test_what_was_processed_since_the_snapshot_counts_and_what_was_not_does_not(monkeypatch):
    deployment = fleet(monkeypatch, records=500, begin=75)
    deployment.work(12 * 75, everything=True)
    assert compared(deployment).unlike == []
    deployment.work(12 * 500, snapshots=False)
    assert named(compared(deployment)) == [("p0:dev3", "vibration", "high")]


def test_rekeyed_streams_are_compared_by_their_routes(monkeypatch):
    deployment = fleet(monkeypatch, partitions=2, routes=3, stream="field:country", input__id_path="id")
    deployment.turn(everything=True)
    deployment.turn(everything=True)
    found = compared(deployment)
    assert (found.streams, found.compared, named(found)) == (12, 12, [("dev3", "vibration", "high")])


def test_partitions_are_compared_where_they_are_the_streams(monkeypatch):
    deployment = fleet(monkeypatch, devices=6, begin=10, partitions=6, stream="partition")
    deployment.work(300, everything=True)
    assert named(compared(deployment)) == [("p3", "vibration", "high")]


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ([{"temp": None} if device < 8 else {} for device in range(12)], {"prepare__missing": "mean"}),
        (
            [{"setting": "b" if device == 5 else "a"} for device in range(12)],
            {"prepare__categories": {"setting": ["a", "b"]}},
        ),
    ],
    ids=["a feature that some lack is compared among the others", "a category is no number"],
)
def test_a_feature_is_compared_where_it_is_a_number(monkeypatch, shown, given):
    deployment = fleet(monkeypatch, shown=shown, **given)
    deployment.work(12 * 300, everything=True)
    assert named(compared(deployment)) == [("p0:dev3", "vibration", "high")]


def test_few_streams_have_no_peers(monkeypatch, capsys, printed):
    deployment = fleet(monkeypatch, devices=4)
    deployment.work(4 * 300, everything=True)
    assert run(monkeypatch, *OPTIONS, "--peers") == 0
    assert capsys.readouterr() == ("--peers compares 5 streams or more; there are snapshots of 4 streams\n", "")
    assert orjson.loads(printed(run, *OPTIONS, "--peers", "--json").out) == {
        **{"streams": 4, "compared": 0, "unlike": [], "records": 0, "cut": False, "kinds": []}
    }


def test_streams_that_are_alike_are_one_line_and_those_with_few_recent_records_another(monkeypatch, printed):
    deployment = fleet(monkeypatch, begin=300)
    deployment.work(12 * 300, everything=True)
    assert printed(run, *OPTIONS, "--peers") == (NONE.format(12) + KINDS, "")
    deployment.expire(TOPIC, 12 * 300 - 40 * 12 + 5)
    assert printed(run, *OPTIONS, "--peers").out == (
        NONE.format(7) + "5 streams have fewer than 40 of the records that were compared, and were left out\n"
    )
    deployment.expire(TOPIC, 12 * 300)
    assert printed(run, *OPTIONS, "--peers").out.startswith("none of 0 streams")
    assert "unlike" not in printed(run, *OPTIONS).out


def test_many_features_of_a_stream_are_not_all_shown(monkeypatch, printed):
    shown = [{f"x{n}": 50.0 if device == 5 else 1.0 for n in range(4)} for device in range(12)]
    deployment = fleet(monkeypatch, begin=300, shown=shown, input__features=[*FEATURES, *(f"x{n}" for n in range(4))])
    deployment.work(12 * 300, everything=True)
    short = printed(run, *OPTIONS, "--peers").out.splitlines()
    assert short[4] == "1 more feature of these streams: see --wide"
    assert short[5].startswith("1 of 12 streams is unlike")
    assert printed(run, *OPTIONS, "--peers", "--wide").out.splitlines()[5].startswith("1 of 12 streams is unlike")


def test_what_cannot_be_compared_is_an_error_and_what_only_hints_is_none(monkeypatch, printed):
    deployment = fleet(monkeypatch)
    deployment.work(12 * 300, everything=True)
    assert "leave out --stream" in printed(run, *OPTIONS, "--peers", "--stream", "p0:dev3", code=2).err

    for error in (BrokerError("no right to read the input"), RestoreCancelledError()):

        def read(*_, error=error):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(recent, "read", read)
            assert "unlike" not in printed(run, *OPTIONS).out
            if isinstance(error, BrokerError):
                assert run(monkeypatch, *OPTIONS, "--peers") == 69
    sparse = MemoryDeployment(monkeypatch, input__features=None, input__sparse="x", engine__name="sa_art", **PLAIN)
    assert "sparse" in printed(run, *OPTIONS, "--peers", code=2).err
    assert sparse.given.input.sparse == "x"


def test_a_hint_that_would_read_much_is_left_out_before_it_reads_and_none_reads_drift_events(monkeypatch, printed):
    deployment = fleet(monkeypatch)
    deployment.work(12 * 300, everything=True)
    for bound in ("HINT_RECORDS", "HINT_VALUES"):
        with monkeypatch.context() as patch:
            patch.setattr(peers, bound, 1_000)
            deployment.seen.clear()
            assert "unlike" not in printed(run, *OPTIONS).out
            assert TOPIC not in {record.topic for record in deployment.seen}
            assert "\n1 of 12 streams" in printed(run, *OPTIONS, "--peers").out
    deployment.seen.clear()
    assert printed(run, *OPTIONS).out.endswith("its peers in its recent records: resonance inspect --peers\n")
    assert deployment.given.topic("drift_events") not in {record.topic for record in deployment.seen}
    monkeypatch.setattr(recent, "MOST_RECORDS", 12 * 100)
    assert printed(run, *OPTIONS, "--peers").out.endswith(
        "only the last 1,200 records were read, fewer than 400 of each stream; older ones are left out\n"
    )


def test_a_hint_does_not_wait_for_a_broker(monkeypatch, printed):
    deployment = fleet(monkeypatch)
    deployment.work(12 * 300, everything=True)
    given = []

    def wait(*_):
        *_, over = given[-1]
        assert over.wait(60)
        raise RestoreCancelledError

    def opened(*arguments):
        given.append(arguments)
        return deployment

    monkeypatch.setattr(type(deployment.source), "reader", opened)
    monkeypatch.setattr(recent, "read", wait)
    monkeypatch.setattr(inspect, "HINT_SECONDS", 0.01)
    shown = printed(run, *OPTIONS)
    assert "p0:dev3" in shown.out
    assert "unlike" not in shown.out


def test_no_more_is_read_than_wanted(monkeypatch):
    deployment = fleet(monkeypatch, records=400)
    deployment.work(12 * 400, everything=True)
    states = read_states(deployment.source, deployment)
    for most in (3_000, 600):
        monkeypatch.setattr(recent, "MOST_VALUES", most * len(FEATURES))
        read = []
        found = compare_streams(deployment.given, deployment, states, read.append)
        assert sum(read[: -(-most // 5_000)]) == found.records == most
        assert found.cut
        assert named(found) == [("p0:dev3", "vibration", "high")]


def test_the_roots_of_a_keyed_hierarchy_are_compared_by_their_input(monkeypatch):
    given = {**KEYED, "input__id_path": "id", "engine__landmarks": None, "engine__memory": None}
    deployment = fleet(monkeypatch, devices=6, begin=10, partitions=6, routes=2, **given)
    deployment.turn(everything=True)
    deployment.turn(everything=True)
    found = compared(deployment)
    assert (found.streams, named(found)) == (6, [("p3", "vibration", "high")])


def test_the_past_is_compared_as_it_was(monkeypatch, printed):
    deployment = fleet(monkeypatch, records=500, begin=75)
    deployment.work(12 * 75, everything=True, archive=True)
    deployment.work(12 * 500, everything=True)
    assert printed(run, *OPTIONS, "--peers", "--at", str(12 * 75)).out == NONE.format(12) + KINDS
    assert "\n1 of 12 streams" in printed(run, *OPTIONS, "--peers", "--at", str(12 * 500)).out


def test_partitions_with_more_streams_are_read_further_back(monkeypatch):
    deployment = fleet(monkeypatch, partitions=5)
    deployment.work(3 * 300, everything=True)
    monkeypatch.setattr(recent, "MOST_RECORDS", 1_200)
    plan = recent.plan(deployment.given, deployment, read_states(deployment.source, deployment))
    # Of twelve devices three are in each of the first two partitions.
    assert {at[1]: stop - start for at, (start, stop) in plan.ranges.items()} == {
        0: 300,
        1: 300,
        2: 200,
        3: 200,
        4: 200,
    }


def test_late_labels_on_the_routes_are_no_records(monkeypatch):
    given = {"prepare__missing": "mean", "stream": "field:country", "input__id_path": "id"}
    deployment = fleet(monkeypatch, partitions=2, routes=3, **given)
    deployment.turn(everything=True)
    deployment.turn(everything=True)
    before = compared(deployment)
    routes = deployment.given.topic("routes")
    for partition in range(3):
        for record in deployment.logs[routes, partition][-200:]:
            label = Record("labels", 0, record.offset, record.timestamp, None, b'{"id": "0-1"}', ())
            message = route_message(label, "labels", 0, record.key, partition)
            added = deployment.append((routes, partition), message, timestamp=record.timestamp)
            deployment.offsets[routes, partition] = added.offset + 1
    assert named(before) == [("dev3", "vibration", "high")]
    labels = deployment.given.labels.model_copy(update={"topic": "labels"})
    deployment.given = deployment.given.model_copy(update={"labels": labels})
    assert compared(deployment).unlike == before.unlike


def test_times_that_are_out_of_order_hide_no_drift():
    read = recent.Recent({"x": 0})
    for times in (["2026-01-02", "2026-01-04"], ["2026-01-03", "2026-01-01"]):
        read.add((TOPIC, 0), np.zeros((2, 1)), ["x"], [0, 0], times)
    assert read.newest == {0: "2026-01-04"}


def test_devices_that_send_many_records_in_a_message_are_compared_by_as_many_records(monkeypatch):
    deployment = fleet(monkeypatch, records=600, begin=200, input__records=".")
    plain, deployment.logs[TOPIC, 0] = deployment.logs[TOPIC, 0], []
    for start in range(0, 12 * 600, 12 * 20):
        block = plain[start : start + 12 * 20]
        for device in range(12):
            own = block[device::12]
            assert len({record.key for record in own}) == 1
            message = Message(own[0].key, b"\n".join(record.value for record in own), [])
            deployment.append((TOPIC, 0), message, timestamp=own[0].timestamp)
    deployment.work(len(deployment.logs[TOPIC, 0]), everything=True)
    read = []
    found = compare_streams(deployment.given, deployment, read_states(deployment.source, deployment), read=read.append)
    assert named(found) == [("p0:dev3", "vibration", "high")]
    assert sum(read) < 12 * 600


def test_a_level_that_a_wave_of_all_hides_is_found_by_the_times_of_the_records(monkeypatch):
    def wave(device, records, **_):
        rng = np.random.default_rng(device)
        rows = rng.normal(size=(records, 3)) * 0.2 + 20 + 0.4 * (device % 3)
        rows[:, 1] += 4 * np.sin(np.arange(records) / 50) + 6 * (device == 3)
        return rows

    monkeypatch.setattr(f"{__name__}.values", wave)
    deployment = fleet(monkeypatch, records=400)
    deployment.work(12 * 400, everything=True)
    assert named(compared(deployment)) == [("p0:dev3", "vibration", "high")]
    monkeypatch.setattr(recent.Recent, "milliseconds", lambda self: np.zeros(12 * 400, np.int64))
    assert named(compared(deployment)) == []
