"""A part of a log that ends where it can be read no further says what it leaves out."""

import logging
from types import SimpleNamespace

import pytest
from resonance.pipeline.kafka.positions import Position, Span, resolve

AT = ("in", 0)


@pytest.mark.parametrize(
    ("end", "high", "left_out"),
    [
        (Span().end, 4_001, "in[0]@1000: 3001 records are left out: a transaction that is open there holds them back"),
        (Span().end, 1_000, None),
        # More came between two answers of the broker.
        (Span().end, 990, None),
        (Position(offset=500), 4_001, None),
    ],
)
def test_what_an_open_transaction_holds_back_is_left_out_with_a_warning(caplog, end, high, left_out):
    reader = SimpleNamespace(bounds=lambda _: {AT: (0, 1_000)}, high_watermarks=lambda _: {AT: high}, offsets_at=None)
    assert resolve(reader, Span(end=end), [AT]) == {AT: (0, min(end.offset, 1_000))}
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.split(";")[0] for line in warnings] == ([] if left_out is None else [left_out])
