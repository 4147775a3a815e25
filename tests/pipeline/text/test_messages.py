"""Messages of a C client become the columns that a literal loop over them makes, and each is destroyed once."""

import ctypes
import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from resonance.pipeline.text import messages as kernels

BEHIND = 8
TEXT = st.none() | st.binary(max_size=20)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, -191, 3]),
        st.integers(1, 2**62),
        st.integers(0, 2**31 - 1),
        TEXT,
        TEXT,
        st.integers(0, 2**62),
        st.integers(-1, 2**62),
        st.booleans(),
    ),
    max_size=20,
)


class Client:
    """A C client with messages, each a struct and what it points to."""

    def __init__(self, messages):
        self.kept, self.destroyed, self.places = [], [], {}
        for error, topic, partition, value, key, offset, time, headers in messages:
            texts = [None if text is None else ctypes.create_string_buffer(text + b"?") for text in (value, key)]
            value_at, key_at = (0 if text is None else ctypes.addressof(text) for text in texts)
            sizes = len(value or b""), len(key or b"")
            words = error, topic, partition, value_at, sizes[0], key_at, sizes[1], offset, 0
            place = ctypes.create_string_buffer(struct.pack("=i4xqi4x6q", *words))
            self.kept.append((texts, place))
            self.places[ctypes.addressof(place)] = time, headers
        word, pointer = ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
        self.functions = [
            ctypes.CFUNCTYPE(word, word, word)(lambda address, _: self.places[address][0]),
            ctypes.CFUNCTYPE(ctypes.c_int32, word, pointer)(self.headers),
            ctypes.CFUNCTYPE(None, word)(self.destroyed.append),
        ]

    def headers(self, address, to):
        if not self.places[address][1]:
            return -1
        to[0] = address + 1
        return 0

    @property
    def addresses(self):
        return np.array(list(self.places), np.int64)

    def called(self):
        return np.array([ctypes.cast(each, ctypes.c_void_p).value for each in self.functions], np.int64)


@settings(deadline=None)  # the first one may compile
@given(MESSAGES)
def test_columns_are_those_of_a_literal_loop(messages):
    client, count = Client(messages), len(messages)
    error, partition = np.empty(count, np.int32), np.empty(count, np.int32)
    topic, sizes = np.empty(count, np.int64), np.zeros(2, np.int64)
    kernels.look(client.addresses, error, topic, partition, sizes)
    assert error.tolist() == [message[0] for message in messages]
    assert topic.tolist() == [message[1] for message in messages]
    assert partition.tolist() == [message[2] for message in messages]
    good = [message for message in messages if message[0] == 0]
    values, keys = ([message[at] for message in good] for at in (3, 4))
    assert sizes.tolist() == [sum(len(text or b"") for text in column) for column in (values, keys)]

    addresses, count = client.addresses[error == 0], len(good)
    text = np.full(sizes[0] + count + BEHIND, 255, np.uint8)
    key_text = np.full(sizes[1], 255, np.uint8)
    ends, key_ends, offsets, times, numbers, found = (np.empty(count, np.int64) for _ in range(6))
    nulls = np.empty(count, np.uint8)
    columns = text, ends, key_text, key_ends, offsets, times, nulls, numbers, found
    some = kernels.unpack(addresses, client.called(), *columns)

    assert text[: sizes[0] + count].tobytes() == b"".join((value or b"") + b"\0" for value in values)
    assert (text[sizes[0] + count :] == 255).all()
    assert (ends + 1).tolist() == np.cumsum([len(value or b"") + 1 for value in values], dtype=int).tolist()
    assert key_text.tobytes() == b"".join(key or b"" for key in keys)
    assert key_ends.tolist() == np.cumsum([len(key or b"") for key in keys], dtype=int).tolist()
    assert offsets.tolist() == [message[5] for message in good]
    assert times.tolist() == [message[6] for message in good]
    assert nulls.tolist() == [(value is None) + 2 * (key is None) for value, key in zip(values, keys, strict=True)]
    with_headers = [number for number, message in enumerate(good) if message[7]]
    assert numbers[:some].tolist() == with_headers
    assert found[:some].tolist() == [addresses[number] + 1 for number in with_headers]
    # Those with headers are the caller's to destroy, as are errors.
    assert client.destroyed == [at for number, at in enumerate(addresses.tolist()) if number not in with_headers]
