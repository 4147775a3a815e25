"""Texts made of columns of pieces."""

import random

import pytest
from resonance.pipeline.text.paste import paste


def column(pieces):
    return b"\0".join((*pieces, b""))


def test_rows_are_joined_from_a_piece_of_each_column():
    text, ends = paste(3, [b"<", column([b"a", b"", b"ccc"]), b"|", column([b"1", b"22", b""]), b">"])
    assert (text.tobytes(), ends.tolist()) == (b"<a|1><|22><ccc|>", [5, 10, 16])


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_any_length_and_of_any_bytes_but_zero_come_whole(seed):
    draw = random.Random(seed)
    pieces = [
        [bytes(draw.choices(range(1, 256), k=draw.choice((0, 1, 7, 8, 9, draw.randrange(70))))) for _ in range(40)]
        for _ in range(6)
    ]
    fixed = bytes(draw.choices((1, 2, 127, 128, 129, 255), k=draw.randrange(30)))
    text, ends = paste(40, [fixed, *map(column, pieces), fixed])
    rows = [fixed + b"".join(own) + fixed for own in zip(*pieces, strict=True)]
    assert (text.tobytes(), ends.tolist()) == (b"".join(rows), [sum(map(len, rows[: at + 1])) for at in range(40)])


def test_without_rows_there_is_no_text():
    assert paste(0, [b"<", b">"])[0].tobytes() == b""


@pytest.mark.parametrize("pieces", [2, 4])
def test_a_column_with_more_or_fewer_pieces_than_rows_is_refused(pieces):
    with pytest.raises(ValueError, match=rf"3 rows have columns of \[3, {pieces}, 3, 0\] pieces"):
        paste(3, [column([b"a"] * 3), column([b"b"] * pieces), column([b"c"] * 3), b"."])
