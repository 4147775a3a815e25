"""What was recorded, compared with a replay: identical, or where it first differs and how."""

from itertools import pairwise

import orjson
import pytest
from resonance.pipeline.checkpoint.archive_reader import Archives
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import recovery, reset
from resonance.pipeline.recovery.reset import plan_stream_reset

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC


@pytest.fixture
def deployment(monkeypatch):
    """One partition with two streams, worked on in three parts, archived behind the first two."""
    made = MemoryDeployment(monkeypatch)
    made.append((TOPIC, 0), Message(b"a", b'{"cpu": "much"}', []))
    for until in (200, 400):
        made.work(until, archive=True)
    made.work(601)
    return made


def reads(monkeypatch):
    """Return the positions of the archives that are read whole from now on."""
    read = []
    whole = Archives.read

    def noted(archives, entry):
        read.append(entry.position)
        return whole(archives, entry)

    monkeypatch.setattr(Archives, "read", noted)
    return read


def test_everything_is_identical(deployment):
    verdict = deployment.verify()
    assert verdict.identical
    (part,) = verdict.parts
    assert (part.records, part.assignments, part.dead_letters) == (601, 600, 1)
    assert part.events == len(deployment.recorded("cluster_events")) > 5
    assert part.start == "empty models at offset 0, where they began"


def test_the_last_minutes_are_identical_after_the_first_records_expired(deployment):
    deployment.expire(TOPIC, 300)
    (part,) = deployment.verify(last="3m").parts
    assert (part.begin, part.records, part.silent, part.difference) == (419, 182, 19, None)
    with pytest.raises(MismatchError) as stopped:
        deployment.verify(begin="350")
    assert part.start.startswith("from the archive at offset 400")
    assert stopped.value.remedies == ("--fresh",)


def test_an_archive_from_before_any_record_is_no_beginning_that_a_user_knows(monkeypatch):
    made = MemoryDeployment(monkeypatch)
    made.work(0, archive=True)
    made.work(601)
    (part,) = made.verify().parts
    assert part.start == "empty models at offset 0, where they began"


def test_without_an_archive_it_says_what_is_missing(deployment):
    deployment.expire(TOPIC, 100)
    with pytest.raises(
        MismatchError,
        match=r"features\[0\]: the models at offset 100 are not known: .* the log begins at offset 100, and the models "
        r"began at 0; replay from offset 400 on \(--from\), .*--fresh",
    ):
        deployment.verify()
    assert not deployment.verify(fresh=True).identical


def test_behind_a_new_version_its_records_are_compared(monkeypatch):
    deployment = MemoryDeployment(monkeypatch)
    deployment.work(300, everything=True)
    deployment.take_settings(deployment.changed(engine__memory=280))
    assert recovery.begin_versions(deployment.source)
    with pytest.raises(BrokerError, match="the models began at offset 300, behind the range: nothing is compared"):
        deployment.verify()
    for until in (400, 450):
        deployment.work(until, everything=True, archive=True)
    deployment.work(600)
    read = reads(monkeypatch)
    (part,) = deployment.verify().parts
    assert read == [300]
    assert (part.begin, part.end, part.records, part.difference) == (300, 600, 300, None)
    assert part.start.startswith("from the archive at offset 300")
    assert part.notes[-1] == "outputs from offset 0 on came from earlier models and are not compared"


def test_a_changed_setting_is_found_where_it_first_matters(deployment, monkeypatch):
    given = deployment.changed(engine__memory=280)
    read = reads(monkeypatch)
    verdict = deployment.verify(given, begin="450")
    assert {*read} == {400}, "older ones do not lead to these models"
    (part,) = verdict.parts
    assert "left aside: memory was 100, is 280" in part.notes[0] or "engine.memory was 100, is 280" in part.notes[0]
    assert part.start == "empty models at offset 0, where they began"
    ((topic, difference),) = verdict.differences()
    first, *members = difference.sentences(topic)
    assert first.startswith("resonance.")
    assert f"about features[0]@{difference.offset}: is recorded otherwise than it is replayed" in first
    assert members
    assert all(": recorded " in member and ", replayed " in member for member in members)


def test_a_changed_member_is_named(deployment):
    content = orjson.loads(deployment.recorded()[500].value)
    deployment.replace("assignments", 500, value=orjson.dumps(content | {"novel": not content["novel"]}))
    ((topic, difference),) = deployment.verify().differences()
    offset = content["source"]["offset"]
    now, before = str(not content["novel"]).lower(), str(content["novel"]).lower()
    assert difference.sentences(topic) == [
        f"resonance.assignments[0], about features[0]@{offset}: is recorded otherwise than it is replayed",
        f"  novel: recorded {now}, replayed {before}",
    ]


def cause(record):
    """What an event came from; nothing for other outputs."""
    return orjson.loads(record.value).get("cause")


@pytest.mark.parametrize("kind", ["assignments", "cluster_events", "dead_letters"])
def test_a_missing_output_is_found(deployment, kind):
    log = deployment.recorded(kind)
    place = len(log) // 2
    # The last that is said of its record: the next one of the same record would stand in its place.
    while place + 1 < len(log) and cause(log[place]) == cause(log[place + 1]) is not None:
        place += 1
    del log[place]
    ((_, difference),) = deployment.verify().differences()
    assert (difference.kind, difference.what) == (kind, "missing")


@pytest.mark.parametrize("kind", ["assignments", "cluster_events"])
def test_a_surplus_output_is_found(deployment, kind):
    record = deployment.recorded(kind)[-1]
    source = b'"offset":%d}' % orjson.loads(record.value).get("cause", orjson.loads(record.value))["source"]["offset"]
    value = record.value.replace(source, b'"offset":600}').replace(b'"seq":', b'"seq":9')
    deployment.append((deployment.given.topic(kind), 0), Message(record.key, value, record.headers))
    ((_, difference),) = deployment.verify().differences()
    assert (difference.kind, difference.what, difference.offset) == (kind, "surplus", 600)


def test_dead_letters_of_an_earlier_release_verify_as_before(deployment):
    (dead_letter,) = deployment.recorded("dead_letters")
    said = [header for header in dead_letter.headers if not header[0].endswith((".topic_id", ".version"))]
    deployment.replace("dead_letters", 0, headers=said)
    assert deployment.verify().identical
    deployment.replace("dead_letters", 0, headers=[*said, ("strange", b"")])
    ((_, difference),) = deployment.verify().differences()
    assert difference.members == [("headers.strange", "", None)]


def test_dead_letters_of_a_history_that_was_given_up_are_older(deployment):
    (dead_letter,) = deployment.recorded("dead_letters")
    deployment.take_settings(deployment.changed(engine__memory=350))
    reset.reset(deployment.source)
    deployment.work(601)
    place = (deployment.given.topic("dead_letters"), 0)
    # About a record that can be used under the present settings.
    headers = [(name, b"7" if name.endswith(".offset") else value) for name, value in dead_letter.headers]
    deployment.append(place, Message(dead_letter.key, dead_letter.value, headers))
    text = [dict(one.headers)["resonance.error.version"] for one in deployment.recorded("dead_letters")]
    assert text == [b"1", b"2", b"1"]
    (part,) = deployment.verify().parts
    assert (part.dead_letters, part.difference) == (1, None)


def test_equal_repeats_count_once(deployment):
    deployment.again("assignments", 300, 350)
    deployment.again("cluster_events", 2, 4)
    verdict = deployment.verify()
    assert verdict.identical
    (part,) = verdict.parts
    assert (part.assignments, part.repeats) == (600, 52)


def test_what_a_reset_gave_up_is_left_aside(deployment):
    older = [
        record._replace(value=record.value.replace(b'"version":1', b'"version":0'))
        for record in deployment.recorded()[:40]
    ]
    deployment.recorded()[:0] = older
    verdict = deployment.verify()
    assert verdict.identical
    assert verdict.total("older") == 40


def test_outputs_in_another_order_are_a_difference(deployment):
    for kind in ("assignments", "cluster_events"):
        log = deployment.recorded(kind)
        pairs = enumerate(pairwise(map(_offset_of, log[3:])), 3)
        place = next(place for place, (offset, following) in pairs if offset < following)
        first, second = log[place], log[place + 1]
        swapped = (second._replace(offset=first.offset), first._replace(offset=second.offset))
        log[place : place + 2] = swapped
        ((_, difference),) = deployment.verify().differences()
        assert (difference.kind, difference.what, difference.members) == (kind, "reordered", [])
        assert difference.offset == _offset_of(swapped[0])
        log[place : place + 2] = [first, second]
    assert deployment.verify().identical


def test_a_worker_that_went_back_is_no_disorder(deployment):
    deployment.again("assignments", 300, 600)
    assert deployment.verify().identical
    # The log of outputs begins within what was emitted again.
    deployment.expire("resonance.assignments", deployment.recorded()[400].offset)
    verdict = deployment.verify()
    assert verdict.identical
    assert "resonance.assignments begins with the outputs of offset 300" in verdict.parts[0].notes[0]


def test_a_range_is_compared_with_what_was_recorded_of_it_later(deployment):
    deployment.again("assignments", 250, 600)
    deployment.again("assignments", 500, 600)
    for begin in range(210, 590, 60):
        (part,) = deployment.verify(begin=str(begin), end=str(begin + 7)).parts
        assert part.difference is None
    deployment.replace("assignments", -50, key=b"other")
    place = _offset_of(deployment.recorded()[-50])
    ((_, difference),) = deployment.verify(begin=str(place - 3), end=str(place + 3)).differences()
    assert (difference.offset, difference.what) == (place, "repeated")
    assert [member[:2] for member in difference.members] == [("key", "other")]


@pytest.mark.parametrize("kind", ["assignments", "cluster_events"])
def test_another_header_is_a_difference(monkeypatch, kind):
    deployment = MemoryDeployment(monkeypatch, output__envelope="cloudevents")
    deployment.work(600)
    record = deployment.recorded(kind)[7]
    headers = [(name, b"1.1" if name == "ce_specversion" else value) for name, value in record.headers]
    deployment.replace(kind, 7, headers=headers)
    ((_, difference),) = deployment.verify().differences()
    assert (difference.what, difference.members) == ("other", [("headers.ce_specversion", "1.1", "1.0")])
    deployment.replace(kind, 7, headers=[*record.headers, ("more", b"1")])
    ((_, difference),) = deployment.verify().differences()
    assert (difference.what, difference.members) == ("other", [("headers.more", "1", None)])


def test_the_envelope_may_change_within_a_range(monkeypatch):
    deployment = MemoryDeployment(monkeypatch)
    for part, envelope in enumerate(("cloudevents", "events", "plain", "cloudevents"), start=1):
        deployment.take_settings(deployment.changed(output__envelope=envelope))
        deployment.work(150 * part)
    assert {len(record.headers) for record in deployment.recorded()} == {0, 6}
    assert deployment.verify().identical
    place = next(place for place, record in enumerate(deployment.recorded()) if not record.headers)
    deployment.replace("assignments", place, key=b"other")
    ((_, difference),) = deployment.verify().differences()
    assert (difference.what, [member[0] for member in difference.members]) == ("other", ["key"])


@pytest.mark.parametrize("kind", ["assignments", "cluster_events"])
def test_an_output_may_come_again_in_another_envelope(monkeypatch, kind):
    deployment = MemoryDeployment(monkeypatch, output__envelope="cloudevents")
    deployment.work(600)
    deployment.again(kind, -4, None)
    for place in (-1, -8):
        deployment.replace(kind, place, headers=[])
    verdict = deployment.verify()
    assert (verdict.identical, verdict.total("repeats")) == (True, 4)
    deployment.replace(kind, -3, headers=[*deployment.recorded(kind)[-3].headers, ("ce_id", b"other")])
    ((_, difference),) = deployment.verify().differences()
    assert difference.kind == kind
    assert any(path == "headers.ce_id" for path, *_ in difference.members)


def test_all_that_was_emitted_before_a_reset_that_went_back_to_the_beginning_is_left_aside(deployment):
    events = len(deployment.recorded("cluster_events"))
    deployment.take_settings(deployment.changed(engine__memory=350))
    reset.reset(deployment.source)
    deployment.work(601)
    verdict = deployment.verify()
    assert verdict.identical
    assert verdict.total("older") == 600 + events + 1
    assert verdict.total("events") == len(deployment.recorded("cluster_events")) - events > 5
    assert deployment.verify(begin="300", end="400").identical


def test_a_range_may_hold_the_place_where_a_stream_began_anew(monkeypatch):
    deployment = MemoryDeployment(monkeypatch)
    deployment.work(150, archive=True)
    deployment.work(300)
    change = plan_stream_reset(deployment.source, "p0:a")
    deployment.write(deployment.source, [change])
    deployment.work(600)
    text = [orjson.loads(record.value) for record in deployment.recorded()[-9:]]
    assert {(content["stream"], content["version"]) for content in text} == {("p0:a", 2), ("p0:b", 1)}
    (part,) = deployment.verify(begin="200").parts
    assert (part.difference, part.records, part.assignments) == (None, 400, 400)
    assert part.notes[0].startswith("a new version of a model began at offset 300: from there on from the archive at")
    deployment.replace("assignments", 450, key=b"other")
    ((_, difference),) = deployment.verify(begin="200").differences()
    assert difference.offset == _offset_of(deployment.recorded()[450])


def test_what_no_worker_wrote_is_reported(deployment):
    for kind in ("assignments", "cluster_events", "dead_letters"):
        for value in (b"hello", b'{"source": 3}', b'{"cause":{"source":{"topic":"features","offset":[]}},"version":1}'):
            deployment.append((deployment.given.topic(kind), 0), Message(None, value, []))
    verdict = deployment.verify()
    assert verdict.identical
    assert [note for note in verdict.parts[0].notes if "3 records there are no outputs of a worker" in note] != []
    assert len(verdict.parts[0].notes) == 3


def test_where_nothing_can_be_compared_it_is_not_identical(deployment):
    for kind in ("assignments", "cluster_events", "dead_letters"):
        deployment.firsts[deployment.given.topic(kind), 0] = 10_000
        deployment.logs[deployment.given.topic(kind), 0] = []
    with pytest.raises(BrokerError, match=r"nothing of that range can be compared .*lost all outputs of the range"):
        deployment.verify()


def _offset_of(record):
    content = orjson.loads(record.value)
    return int(content.get("cause", content)["source"]["offset"])


def test_only_what_is_committed_is_compared(deployment):
    deployment.offsets[TOPIC, 0] = 500
    (part,) = deployment.verify().parts
    assert (part.end, part.assignments, part.difference) == (500, 500, None)


@pytest.mark.parametrize("wanted", ["changes", "novel", "none"])
def test_fewer_answers_are_compared_as_well(monkeypatch, wanted):
    deployment = MemoryDeployment(monkeypatch, output__assignments=wanted)
    deployment.work(300, archive=True)
    deployment.work(600)
    assert deployment.verify().identical
    (part,) = deployment.verify(begin="350").parts
    assert (part.difference, part.silent) == (None, 50)


def test_nothing_committed_is_an_error(monkeypatch):
    with pytest.raises(BrokerError, match="group resonance has committed nothing of features"):
        MemoryDeployment(monkeypatch).verify()


def test_the_command_says_identical(deployment, printed):
    shown = printed(run, "verify")
    assert shown.out.splitlines()[-1].startswith("identical: 601 records, 600 assignments, ")
    assert "features[0]: empty models at offset 0, where they began" in shown.err


def test_the_command_says_where_it_differs(deployment, printed):
    deployment.replace("assignments", 500, key=b"c")
    out = printed(run, "verify", code=3).out
    assert '  key: recorded "c", replayed ' in out
    assert out.splitlines()[-1].startswith("different: ")
    found = orjson.loads(printed(run, "verify", "--json", code=3).out)
    assert found["identical"] is False
    assert found["partitions"][0]["difference"]["members"][0][:2] == ["key", "c"]


def test_the_command_says_what_is_wrong(deployment, command, capsys):
    assert command("verify", "--partition", "7") == 2
    assert "--partition 7: the input has the partitions 0 to 0" in capsys.readouterr().err
    assert command("verify", "--from", "601") == 69
    assert "no record of that range is committed by group resonance" in capsys.readouterr().err
