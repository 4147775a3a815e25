"""What may happen to processes, lines and the broker; each fault is over when its function returns."""

import random
import signal
import time
from collections.abc import Callable

from tests.chaos.lab import Lab


def kill(lab, rng):
    """A worker is killed."""
    lab.worker(rng.choice(lab.numbers)).process.send_signal(signal.SIGKILL)


def stop(lab, rng):
    """A worker is stopped, and started again by its supervisor."""
    lab.worker(rng.choice(lab.numbers)).process.send_signal(signal.SIGTERM)


def freeze(lab, rng):
    """A worker stands still, for less or longer than its session."""
    process = lab.worker(rng.choice(lab.numbers)).process
    process.send_signal(signal.SIGSTOP)
    time.sleep(rng.choice((0.5, 2.0, 9.0)))
    process.send_signal(signal.SIGCONT)


def join(lab, rng):
    """A worker joins, and leaves again before or behind its first record."""
    number = max(lab.numbers) + 1
    lab.start(number)
    time.sleep(rng.uniform(0.0, 6.0))
    lab.leave(number)


def cut(lab, rng):
    """All connections of the workers are reset, once or some times in a row."""
    for _ in range(rng.choice((1, 1, 5, 12))):
        lab.line.cut()
        time.sleep(rng.uniform(0.05, 0.7))


def silence(lab, rng):
    """Nothing passes the line; the connections stay, or break at the end."""
    with lab.line.silence():
        time.sleep(rng.choice((1.0, 4.0, 12.0)))
        if rng.random() < 0.5:
            lab.line.cut()


def delay(lab, rng):
    """Each request and each answer takes longer."""
    lab.line.delay = rng.uniform(0.05, 0.5)
    time.sleep(rng.uniform(2.0, 6.0))
    lab.line.delay = 0.0


def broker_kill(lab, rng):
    """The broker is killed, and begins again with what it has on disk."""
    lab.broker.kill()
    time.sleep(rng.uniform(0.0, 3.0))
    lab.broker.launch()


def broker_freeze(lab, rng):
    """The broker stands still, for less or longer than a session."""
    lab.broker.process.send_signal(signal.SIGSTOP)
    time.sleep(rng.choice((1.0, 5.0, 15.0)))
    lab.broker.process.send_signal(signal.SIGCONT)


def quota(lab, rng):
    """The broker lets the workers write little for some time; a worker that starts then has a backlog before it."""
    lab.limit(rng.choice((5_000, 20_000, 50_000)))
    for _ in range(rng.choice((0, 1, 3))):
        time.sleep(rng.uniform(1.0, 6.0))
        lab.worker(rng.choice(lab.numbers)).process.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
    time.sleep(rng.uniform(5.0, 20.0))
    lab.limit(None)


Fault = Callable[[Lab, random.Random], None]
FAULTS: tuple[Fault, ...] = (kill, stop, freeze, join, cut, silence, delay, broker_kill, broker_freeze, quota)


def plan(kinds, count, rng):
    """Return so many faults in random order, each kind as often as the others."""
    chosen = [kinds[number % len(kinds)] for number in range(count)]
    rng.shuffle(chosen)
    return chosen
