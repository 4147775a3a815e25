"""An output itself says of which record it is; what another program wrote there says nothing."""

import orjson
import pytest
from resonance.pipeline.records import Message
from resonance.pipeline.verify.output_refs import (
    OutputRef,
    alert_ref,
    assignment_ref,
    dead_letter_history,
    dead_letter_ref,
    event_ref,
    is_of_command,
)

SOURCE = {"topic": "orders", "partition": 2, "offset": 7}
EVENT = {"kind": "emerged", "stream": "p2:a", "version": 3, "seq": 5, "cause": {"id": "r7", "source": SOURCE}}


def message(content=None, headers=(), **members):
    value = content if isinstance(content, bytes | None) else orjson.dumps({**content, **members})
    return Message(b"key", value, list(headers))


def dead_letter(topic="orders", partition=b"2", offset=b"7", **more):
    headers = {"topic": topic.encode(), "partition": partition, "offset": offset, **more}
    return [(f"shop.error.{name}", value) for name, value in headers.items()]


def test_an_assignment_names_its_record():
    assert assignment_ref(message({"source": SOURCE, "version": 3})) == OutputRef("orders", 7, 3, (), 2)


def test_the_events_of_one_record_are_in_the_order_of_their_numbers_and_each_is_another():
    refs = [event_ref(message(EVENT, seq=seq, **more)) for seq, more in ((5, {}), (6, {}), (10, {}))]
    assert [ref[:2] for ref in refs] == [("orders", 7)] * 3
    assert refs == sorted(refs, key=lambda ref: ref.identity)
    others = [event_ref(message(EVENT, **more)) for more in ({}, {"part": 2}, {"subtree": 0}, {"stream": "p2:b"})]
    assert len({ref.identity for ref in others}) == 4


def test_the_end_of_a_stream_is_another_subject_than_what_its_next_life_begins_with():
    begun, ended = (event_ref(message(EVENT, kind=kind)) for kind in ("version_started", "stream_ended"))
    assert (begun.subject, ended.subject) == (("p2:a",), ("p2:a", "end"))


def test_an_alert_that_clears_has_the_version_under_which_it_opened_as_its_own_subject():
    opened, cleared, older = (
        alert_ref(message(EVENT, kind=kind, version=version))
        for kind, version in (("opened", 3), ("cleared", 3), ("cleared", 2))
    )
    assert opened.subject == ("p2:a",)
    assert len({opened.subject, cleared.subject, older.subject}) == 3
    assert not is_of_command(message(EVENT, kind="cleared"))
    assert is_of_command(message(EVENT, kind="cleared", reason="reset"))


@pytest.mark.parametrize("ref", [assignment_ref, event_ref, alert_ref])
@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"{", b"3", b"[1]", b"null", b"{}"),
        *({"source": None}, {"source": {**SOURCE, "offset": "7"}, "version": 1}, {"source": SOURCE, "version": "1"}),
        *({**EVENT, "cause": None}, {**EVENT, "seq": "x"}, {**EVENT, "cause": {"source": {**SOURCE, "offset": 1.5}}}),
        {name: value for name, value in EVENT.items() if name != "kind"},
    ],
)
def test_what_another_program_wrote_names_no_record(ref, value):
    assert ref(message(value)) is None


def test_a_dead_letter_names_its_record_by_headers_of_its_deployment():
    ref = dead_letter_ref("shop")
    assert ref(message(None, dead_letter(version=b"3"))) == OutputRef("orders", 7, 3, partition=2)
    assert ref(message(None, dead_letter())) == OutputRef("orders", 7, 0, partition=2)
    assert dead_letter_ref("other")(message(None, dead_letter())) is None
    assert ref(message(None)) is None
    assert ref(message(None, dead_letter(offset=b"x"))) is None


def test_a_dead_letter_that_was_replayed_and_failed_again_is_of_its_last_record():
    twice = [*dead_letter(version=b"3"), ("trace", b"1"), *dead_letter("again", b"0", b"9")]
    # The first one had a version, the last one has none.
    assert dead_letter_ref("shop")(message(None, twice)) == OutputRef("again", 9, 0, partition=0)


def test_a_label_that_waited_is_of_the_record_that_decided_it_and_comes_after_what_did_not_wait_too_long():
    ref = dead_letter_ref("shop")
    found = [
        ref(message(None, dead_letter("labels", decided_by=b"my-orders-2-70", **{"class": kind})))
        for kind in (b"too_late", b"wrong_type")
    ]
    assert [(*each[:2], each.partition) for each in found] == [("my-orders", 70, 2)] * 2
    late, other = (each.identity for each in found)
    assert other < late
    assert late[1:] == other[1:] == ("labels", 2, 7)


def test_headers_that_earlier_releases_did_not_write_are_known_by_name():
    assert dead_letter_history("shop") == {"shop.error.topic_id", "shop.error.version"}
