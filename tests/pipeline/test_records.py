"""Messages as columns, and outputs that hold them."""

from resonance.pipeline.records import Message, Messages, Outputs

EXPECTED = [Message(b"k", b"%d" % (number * number), []) for number in range(3, 6)]
FURTHER = [Message(None, b"", [("a", b"1"), ("b", None)]), Message(b"", b"zz", [], 7)]


def test_columns_are_read_as_messages():
    messages = Messages.of(EXPECTED)
    assert [message.value for message in messages] == [b"9", b"16", b"25"]
    assert [type(each) for each in (messages[1], *messages[1:], *reversed(messages))] == [Message] * 6
    assert (len(messages), bool(Messages()), EXPECTED[2] in messages) == (3, False, True)
    assert [list(messages.behind(first)) for first in range(4)] == [EXPECTED[first:] for first in range(4)]
    assert (messages.headers, messages.partitions, messages.text.tobytes()) == (None, None, b"91625")


def test_messages_equal_others_by_their_content():
    messages = Messages.of(EXPECTED)
    assert [messages == other for other in (EXPECTED, Messages.of(EXPECTED))] == [True, True]
    assert (messages == EXPECTED[:2], messages == tuple(EXPECTED)) == (False, False)


def test_parts_are_joined_whatever_they_have():
    parts = [EXPECTED, Messages(), FURTHER[:1], Messages.of(FURTHER[1:]), EXPECTED]
    assert list(Messages.joined(parts)) == [*EXPECTED, *FURTHER, *EXPECTED]
    assert (Messages.joined([]), Messages.joined([[], EXPECTED])) == ([], EXPECTED)


def test_outputs_bring_messages_into_the_order_of_their_records():
    outputs = Outputs()
    outputs.put("assignments", [5, 9], EXPECTED[::2])
    outputs.put("assignments", [7], EXPECTED[1:2])
    assert outputs.sort() == Outputs(assignments=Messages.of(EXPECTED))
    outputs.add(Outputs(assignments=Messages.of(EXPECTED)))
    assert outputs.assignments == EXPECTED + EXPECTED
