"""When dead letters pause a partition."""

import pytest
from faust.types import TP
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker
from resonance.pipeline.worker.transport.chunk import Chunk

P0 = TP("in", 0)


def paused_after(pauses, *batches):
    """Number of the (records, dead) batch that pauses; None when none does."""
    for number, (records, dead) in enumerate(batches):
        if pauses.note(P0, records, dead, 0):
            return number
    return None


@pytest.mark.parametrize(
    ("batches", "number"),
    [
        ([(100, 50)], None),
        ([(51, 51)], 0),
        ([(10, 10)] * 6, 5),
        # Those that have not come yet count as good.
        ([(60, 30), (40, 20), (40, 20)], None),
        ([(10, 5)] * 30, None),
        ([(10, 6)] * 30, 8),
        # The window slides.
        ([(50, 50), (100, 0), (50, 50)], None),
        # A batch larger than the window is looked at as a whole.
        ([(1000, 500)], None),
        ([(1000, 501)], 0),
    ],
)
def test_more_than_the_share_of_the_window_pauses(batches, number):
    assert paused_after(DeadLetterBreaker("dead", window=100), *batches) == number


@pytest.mark.parametrize(
    ("records", "dead", "share", "number"),
    [
        (600, 480, 0.5, 1),
        (400, 240, 0.5, 2),
        (600, 600, 0.7, 1),
        (100, 60, 0.5, 8),
        # As many as are allowed.
        (600, 300, 0.5, None),
        (300, 210, 0.7, None),
    ],
)
def test_slices_that_fit_the_window_badly_pause_too(records, dead, share, number):
    pauses = DeadLetterBreaker("dead", window=1000, max_share=share)
    assert paused_after(pauses, *[(records, dead)] * 30) == number


def test_a_large_slice_of_good_records_does_not_hide_the_dead_letters_behind_it():
    pauses = DeadLetterBreaker("dead", window=1000)
    assert paused_after(pauses, (5000, 1), (501, 501)) == 1
    assert "501 dead letters among its last 1,000 records" in pauses.paused[P0]


def test_behind_dead_letters_records_come_in_pieces_no_longer_than_the_window():
    pauses = DeadLetterBreaker("dead", window=100)
    assert pauses.most(P0, 5_000) == 5_000
    assert not pauses.note(P0, 5_000, 2_400, 0)
    assert pauses.most(P0, 5_000) == 100
    assert pauses.note(P0, 100, 100, 0)


def test_a_share_of_one_never_pauses():
    assert paused_after(DeadLetterBreaker("dead", window=100, max_share=1), *[(100, 100)] * 10) is None


def test_a_partition_goes_on_with_a_fresh_window():
    pauses = DeadLetterBreaker("dead", window=100)
    assert pauses.note(P0, 60, 60, 60)
    waiting = Chunk(P0, [], 61, position=60, seek=1, generation=1, waiting=0)
    pauses.hold(waiting)
    assert pauses.resume([P0, TP("in", 1)]) == [(waiting, 0)]
    assert not pauses.paused
    assert paused_after(pauses, (50, 50), (1, 1)) == 1
