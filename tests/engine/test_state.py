"""A state survives the way to a topic and back, and nothing else is taken for one."""

import hashlib
import struct

import numpy as np
import pytest
from resonance.engine.errors import StateError
from resonance.engine.state import FORMAT, pack, unpack

HEADER = {"lambda": 50, "tau": 0.08, "names": ["latency_ms", "größe"], "limit": None, "deep": {"b": True, "a": 0.1}}


def arrays():
    return {
        "weights": np.array([[0.1, -0.0, np.nan], [np.inf, 5e-324, 1e308]]),
        "ids": np.array([0, -1, 2**62], dtype=np.int64),
        "flags": np.array([[1], [0]], dtype=np.uint8),
        "empty": np.zeros((0, 7)),
        "scalar": np.array(3.5),
    }


def state():
    return pack("caea", 3, HEADER, arrays())


def signed(body):
    return body + hashlib.sha256(body).digest()


def test_header_and_arrays_come_back_bit_for_bit():
    header, found = unpack(state(), "caea", 3)
    assert (header, sorted(found)) == (HEADER, sorted(arrays()))
    for name, array in arrays().items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
        assert found[name].flags.writeable
        assert found[name].flags.aligned


def test_equal_contents_give_equal_bytes_whatever_the_order_and_layout():
    other = dict(reversed(arrays().items()))
    other["weights"] = np.asfortranarray(other["weights"])
    other["ids"] = other["ids"].astype(">i8")
    assert pack("caea", 3, dict(reversed(HEADER.items())), other) == state()


@pytest.mark.parametrize(("number", "width"), [(2**31 - 1, 4), (-(2**31), 4), (2**31, 8), (-(2**31) - 1, 8)])
def test_integers_take_32_bits_where_all_fit(number, width):
    few, many = (pack("caea", 3, {}, {"ids": np.full(count, number)}) for count in (100, 200))
    # The lengths have as many digits.
    assert len(many) - len(few) == 100 * width
    found = unpack(many, "caea", 3)[1]["ids"]
    assert found.dtype == np.int64
    assert found.tolist() == [number] * 200


def test_a_state_of_the_first_format_is_read():
    # All its integers have 64 bits.
    text = b'{"arrays":[["ids","i8",[2]]],"header":{},"kind":"caea","revision":3}'
    body = struct.pack("<4sHI", b"RESO", 1, len(text)) + text + np.array([7, -1], "<i8").tobytes()
    assert unpack(signed(body), "caea", 3)[1]["ids"].tolist() == [7, -1]


def test_every_truncation_is_refused():
    whole = state()
    for length in range(len(whole)):
        with pytest.raises(StateError):
            unpack(whole[:length], "caea", 3)


def test_every_flipped_bit_is_refused():
    whole = state()
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            with pytest.raises(StateError):
                unpack(bytes(damaged), "caea", 3)


def test_bytes_behind_the_end_are_refused():
    with pytest.raises(StateError, match="damaged"):
        unpack(state() + b"\0", "caea", 3)


def test_another_kind_is_refused_by_name():
    with pytest.raises(StateError, match="state of 'caea', not of 'hcaea'"):
        unpack(state(), "hcaea", 3)


def test_a_newer_format_and_a_newer_revision_are_refused_with_the_remedy():
    newer = bytearray(state()[:-32])
    struct.pack_into("<H", newer, 4, FORMAT + 1)
    with pytest.raises(StateError, match=f"format {FORMAT + 1}, this program reads up to {FORMAT}: use a newer one"):
        unpack(signed(bytes(newer)), "caea", 3)
    with pytest.raises(StateError, match="revision 3, this program 2: use a newer one"):
        unpack(state(), "caea", 2)


def test_an_older_revision_is_read():
    assert unpack(state(), "caea", 4)[0] == HEADER
    with pytest.raises(StateError, match="revision 3, this program reads 4 and later: learn the records again"):
        unpack(state(), "caea", 4, oldest=4)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000),
        b'{"kind":"caea","revision":1,"header":{},"arrays":[["a","O8",[1]]]}',
        b'{"kind":"caea","revision":1,"header":{},"arrays":[["a","f8",[99999999999]]]}',
        b'{"kind":"caea","revision":1,"header":{},"arrays":[["a","f8",[-1]]]}',
        b'{"kind":"caea","revision":1,"header":{},"arrays":[["a","f8"]]}',
        b'{"kind":"caea","revision":"x","header":{},"arrays":[]}',
        b'{"kind":"caea","revision":1,"header":[5],"arrays":[]}',
    ],
)
def test_a_crafted_header_with_a_right_checksum_is_refused(text):
    for length in (len(text), 2**32 - 1):
        with pytest.raises(StateError):
            unpack(signed(struct.pack("<4sHI", b"RESO", FORMAT, length) + text), "caea", 3)


def test_a_value_that_the_container_cannot_hold_is_the_callers_fault():
    with pytest.raises(TypeError, match="float64, int64 and uint8"):
        pack("caea", 1, {}, {"objects": np.array([object()])})
    with pytest.raises(ValueError, match="JSON"):
        pack("caea", 1, {"nan": float("nan")}, {})
