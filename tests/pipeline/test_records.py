"""Messages as plain tuples, and outputs that hold them."""

from resonance.pipeline.records import Message, Messages, Outputs, rows_of

ROWS = [(b"k", b"%d" % number, [], None) for number in range(3)]
EXPECTED = [Message(b"k", b"%d" % number, []) for number in range(3)]


def test_rows_are_read_as_messages():
    messages = Messages(ROWS)
    assert [message.value for message in messages] == [b"0", b"1", b"2"]
    assert [type(each) for each in (messages[1], *messages[1:], *reversed(messages))] == [Message] * 6
    assert (len(messages), bool(Messages()), EXPECTED[2] in messages) == (3, False, True)
    assert list(map(type, rows_of(messages))) == [tuple] * 3


def test_messages_equal_others_by_their_content():
    messages = Messages(ROWS)
    assert [messages == other for other in (EXPECTED, Messages(EXPECTED))] == [True, True]
    assert (messages == EXPECTED[:2], messages == tuple(EXPECTED)) == (False, False)


def test_outputs_bring_rows_into_the_order_of_their_records():
    outputs = Outputs()
    outputs.put("assignments", [5, 9], ROWS[::2])
    outputs.put("assignments", [7], ROWS[1:2])
    assert outputs.sort() == Outputs(assignments=Messages(EXPECTED))
    outputs.add(Outputs(assignments=Messages(ROWS)))
    assert outputs.assignments == Messages(EXPECTED) + EXPECTED
