"""The network between processes and the broker: requests that are lost, late, or never answered, by the seed."""

import hashlib
import sys
from dataclasses import dataclass, field

from tests.simulation.logs import RefusedError
from tests.simulation.scheduler import KilledError

LATENCY = 0.002
"""Mean time of one way."""

FATES = ("lost", "unanswered", "late", "slow", "killed before", "killed behind")
"""What may become of a request besides an answer: it never arrives; it is carried out without an answer; the client
believes it lost, and it is carried out later; it and its answer take seconds; the process dies when it is sent, or when
it was carried out."""


class BrokenError(Exception):
    """The connection broke before the answer came."""


@dataclass
class Weather:
    """How often each fate befalls the requests of each kind, until the faults end."""

    until: float = 0.0
    fates: dict[str, float] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    """Kinds of requests that faults befall; the others are answered."""
    hang: float = 0.0
    """Share of calls with offsets that never return, as librdkafka's do after a broken connection."""


class Network:
    """Carries requests to the broker and answers back, and writes down both."""

    def __init__(self, sim, weather, *, show=False):
        self.sim, self.weather = sim, weather
        # Until when no broker answers.
        self.down_until = 0.0
        self.faults = 0
        self._digest = hashlib.sha256()
        self._show = show

    @property
    def digest(self):
        """A digest of everything that happened, the same in each run of a seed."""
        return self._digest.hexdigest()

    def note(self, who, what):
        """Write down what happened."""
        line = f"{self.sim.now:9.4f} {who:8} {what}"
        self._digest.update(line.encode())
        if self._show:
            sys.stdout.write(line + "\n")

    def _fate(self, kind):
        weather, random = self.weather, self.sim.random
        if self.sim.now >= weather.until or kind not in weather.kinds:
            return ""
        chance = random.random()
        for name, share in weather.fates.items():
            if chance < share:
                self.faults += 1
                # A late commit without a transaction sets the group back (docs/guarantees.md): a known limit.
                return "lost" if (kind, name) == ("commit", "late") else name
            chance -= share
        return ""

    def hangs(self):
        """Return whether a call of the client library never returns."""
        return self.sim.now < self.weather.until and self.sim.random.random() < self.weather.hang

    def send(self, process, kind, request, done):
        """Send a request; `done` gets the answer or the error, in no thread, unless the process is dead by then."""
        if process.dead:
            raise KilledError
        sim, fate = self.sim, self._fate(kind)
        there, back = (sim.random.expovariate(1 / LATENCY) for _ in range(2))
        if fate == "slow":
            there, back = there + sim.random.expovariate(1.0), back + sim.random.expovariate(1.0)

        def finish(answer, error):
            if not process.dead:
                if process.frozen_until > sim.now:
                    sim.at(process.frozen_until - sim.now, lambda: finish(answer, error))
                else:
                    done(answer, error)

        def carry_out(*, answered, broken=False):
            if sim.now < self.down_until:
                if answered:
                    finish(None, BrokenError())
                return
            try:
                answer, error = request(), None
            except RefusedError as refused:
                answer, error = None, refused
            self.note(process.name, f"{kind} {fate} {answer if error is None else error}"[:120])
            if fate == "killed behind":
                process.end("killed")
            if answered:
                sim.at(back, lambda: finish(None, BrokenError()) if broken else finish(answer, error))

        if fate == "killed before":
            self.note(process.name, f"{kind} {fate}")
            process.end("killed")
            if sim.current.process is process:
                raise KilledError
            return
        if fate in ("lost", "late"):
            self.note(process.name, f"{kind} {fate}")
            sim.at(there + back, lambda: finish(None, BrokenError()))
            if fate == "late":
                later = sim.random.expovariate(sim.random.choice((10.0, 0.7)))
                sim.at(there + later, lambda: carry_out(answered=False))
            return
        sim.at(there, lambda: carry_out(answered=True, broken=fate == "unanswered"))

    def call(self, process, kind, request, seconds):
        """Send a request and wait for its answer in the current thread; `BrokenError` where none comes in time."""
        answers = []
        waiting = [self.sim.current]

        def done(answer, error):
            answers.append((answer, error))
            self.sim.wake(waiting[0])

        self.send(process, kind, request, done)
        end = self.sim.now + seconds
        while not answers:
            if self.sim.now >= end:
                raise BrokenError
            self.sim.wait(end - self.sim.now)
        answer, error = answers[0]
        if error is not None:
            raise error
        return answer
