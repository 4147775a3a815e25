"""What is shared is started once, outlives the first that leaves, and is stopped by who started it."""

import multiprocessing
from contextlib import contextmanager

from tests.brokers.sharing import shared


@contextmanager
def thing(folder):
    with (folder / "history").open("a") as history:
        history.write("started ")
    yield "here"
    with (folder / "history").open("a") as history:
        history.write("stopped ")


def use(folder, together, first):
    with shared(folder, "thing", lambda: thing(folder)) as address:
        assert address == "here"
        together.wait(30)
        if not first:
            # The one that started it waits for this one.
            assert (folder / "history").read_text() == "started "


def test_processes_share_one_and_the_last_one_out_has_it_stopped(tmp_path):
    fresh = multiprocessing.get_context("spawn")
    together = fresh.Barrier(3)
    users = [fresh.Process(target=use, args=(tmp_path, together, number == 0)) for number in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert [user.exitcode for user in users] == [0, 0, 0]
    assert (tmp_path / "history").read_text() == "started stopped "


def test_after_its_end_the_next_one_starts_it_again(tmp_path):
    for _ in range(2):
        with shared(tmp_path, "thing", lambda: thing(tmp_path)):
            pass
    assert (tmp_path / "history").read_text() == "started stopped " * 2
