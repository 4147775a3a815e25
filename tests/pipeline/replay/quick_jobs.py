"""Jobs that end in several ways; a process that does them imports little."""

import errno
import os
import signal
import time


def work(report):
    """Work for longer than anybody waits, without a report."""
    time.sleep(600)


def note_and_work(file, report):
    """Say which process works, whole at once."""
    new = file.with_suffix(".new")
    new.write_text(str(os.getpid()))
    new.rename(file)
    work(report)


def count(number, report):
    """Report some records."""
    for _ in range(number):
        report(1)
    return number


def fail(report):
    """Fail as a fault of the program does."""
    raise KeyError(7)


def fill_the_disk(report):
    """Fail as a write on a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device", "out/assignments.jsonl")


def die(report):
    """End as a process that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
