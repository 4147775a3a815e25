"""When dead letters pause a partition, and how it goes on."""

import pytest
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker

from tests.pipeline.worker.processor_bench import P0, P1, chunk


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


def test_too_many_dead_letters_pause_a_partition_and_it_goes_on_at_the_next_record(b, caplog):
    learned = [b.partitions[tp].task.learned for tp in (P0, P1)]
    # A slice has 16 records: the chunk is left in its middle. All are there before the commit that the pause begins.
    of_first = (chunk(P0, 0, 20, waiting=1, value=None), chunk(P0, 20, 5, next_offset=26, waiting=1))
    b.hold(*of_first, chunk(P1, 0, 3), chunk(P0, 26, 0, next_offset=30)).gate.set()
    b.wait(lambda: b.lines("commit") == [("commit", {0: 16, 1: 3})])
    assert (learned, b.done.qsize(), list(b.processor.pauses.paused)) == ([list(range(16)), [0, 1, 2]], 4, [P0])
    why = b.processor.pauses.paused[P0]
    assert why.startswith("in[0] is paused before offset 16: 16 dead letters among its last 16 records are more than ")
    assert "resonance dlq resume --worker http://127.0.0.1:6066 --partition 'in[0]'" in why
    assert caplog.messages.count(why) == 1
    b.processor.resume([P0, P1]).result(5)
    b.wait(lambda: b.lines("commit")[1:] == [("commit", {0: 30})])
    assert learned[0] == list(range(25))
    assert not b.processor.pauses.paused


def test_what_waits_is_held_back_again_where_it_is_no_better(b):
    for first in range(0, 48, 8):
        b.processor.submit(chunk(P0, first, 8, value=None))
    for rounds in (1, 2, 3):
        b.wait(lambda rounds=rounds: b.partitions[P0].task.learned == list(range(8 * rounds)))
        b.wait(lambda: P0 in b.processor.pauses.paused)
        b.processor.resume([P0]).result(5)
    b.close()
    assert b.lines("commit")[-1] == ("commit", {0: 32})


def test_a_partition_that_is_given_up_begins_with_a_fresh_window(b):
    b.processor.submit(chunk(P0, 0, 8, value=None))
    b.processor.submit(chunk(P0, 8, 8))
    b.wait(lambda: P0 in b.processor.pauses.paused)
    b.close()
    assert b.lines("commit")[-1] == ("commit", {0: 8})
    assert not b.processor.pauses.paused
    b.open()
    b.processor.submit(chunk(P0, 8, 8))
    b.wait(lambda: b.partitions[P0].task.learned == list(range(16)))
    b.processor.resume([P0]).result(5)
    assert b.partitions[P0].task.learned == list(range(16))
