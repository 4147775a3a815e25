"""One thing for all processes of a test run: the first that asks starts it, the last that goes has it stopped."""

import fcntl
from contextlib import contextmanager


@contextmanager
def shared(folder, name, start):
    """Yield what `start` gives, to every process that asks with the same folder and name.

    Each process holds a shared lock for as long as it uses the thing; the kernel lets go of it for one that died. The
    process that started it stops it once it gets the lock for itself, that is when no other one uses it any more.
    """
    place = folder / f"{name}.address"
    with (folder / f"{name}.lock").open("a") as lock:
        while True:
            # A lock that is changed is given up for a moment, so each look at the address comes after the change.
            fcntl.flock(lock, fcntl.LOCK_SH)
            if place.exists():
                yield place.read_text()
                return
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                break
        with start() as address:
            place.write_text(address)
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                yield address
            finally:
                fcntl.flock(lock, fcntl.LOCK_EX)
                place.unlink()
