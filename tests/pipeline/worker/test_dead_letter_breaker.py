"""When dead letters pause a partition."""

import pytest
from faust.types import TP
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker

P0 = TP("in", 0)


def paused_after(pauses, *batches):
    """Number of the (records, dead) batch that pauses; None when none does."""
    for number, (records, dead) in enumerate(batches):
        if pauses.note(P0, records, dead, 0):
            return number
    return None


@pytest.mark.parametrize(
    ("batches", "share", "number"),
    [
        ([(100, 50)], 0.5, None),
        ([(51, 51)], 0.5, 0),
        ([(10, 10)] * 6, 0.5, 5),
        # Those that have not come yet count as good.
        ([(60, 30), (40, 20), (40, 20)], 0.5, None),
        # The window slides.
        ([(50, 50), (100, 0), (50, 50)], 0.5, None),
        # A batch larger than the window is looked at as a whole.
        ([(1000, 500)], 0.5, None),
        ([(1000, 501)], 0.5, 0),
        # Slices that fit the window badly.
        ([(60, 48)] * 30, 0.5, 1),
        ([(40, 24)] * 30, 0.5, 2),
        ([(60, 60)] * 30, 0.7, 1),
        ([(10, 6)] * 30, 0.5, 8),
        # As many as are allowed.
        *(([(each, each // 2)] * 30, 0.5, None) for each in (10, 60)),
        ([(30, 21)] * 30, 0.7, None),
    ],
)
def test_more_than_the_share_of_the_window_pauses(batches, share, number):
    assert paused_after(DeadLetterBreaker("dead", window=100, max_share=share), *batches) == number


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
