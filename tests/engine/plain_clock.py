"""The clock of a log, written out plainly: streams are objects, and everything is looked up in lists."""

from dataclasses import dataclass
from statistics import median_low

DAY, STEP = 86_400_000, 30_000


@dataclass
class Stream:
    name: int
    time: int = 0
    lead: int = 0
    at: int = 0
    leading: int = 0
    before: int = 0


class PlainClock:
    def __init__(self):
        self.now, self.behind, self.count = None, 0, 0
        self.doubt = None
        """Where the clock stood before its last leap, or None for its first time, and the middle of the leap."""
        self.leapt = 0
        self.streams = []
        self.steps, self.usual_before = [], 0

    def recent(self):
        return [each for each in self.streams if self.count - each.at < 1_024]

    def is_from_before(self, time):
        if self.doubt is None:
            return False
        floor, middle = self.doubt
        return time < middle and (floor is None or time >= floor - STEP)

    def stream(self, name):
        for each in self.streams:
            if each.name == name:
                return each
        if len(self.streams) == 16:
            self.streams.remove(min(self.streams, key=lambda each: each.at))
        self.streams.append(Stream(name))
        return self.streams[-1]

    def go_to(self, time):
        if time > self.now:
            self.steps.append(time - self.now)
            self.now = time

    def leap_back(self, stream):
        recent = self.recent()
        agree = [each for each in recent if self.is_from_before(each.time)]
        if self.doubt[0] is None:
            if self.count > 1_024 or 2 * len(agree) < len(recent):
                return
        elif len(agree) < len(recent):
            return
        if len(recent) == 1 and stream.before < min(64, self.count // 2):
            return
        self.behind += self.now - stream.time
        self.now, self.doubt = stream.time, None
        for each in self.streams:
            each.lead = each.time - self.now if each.time - self.now > STEP else 0
            each.leading = each.before = 0

    def leap(self, stream):
        recent = self.recent()
        leads = [each.lead for each in recent if each.lead > 0]
        if 2 * len(leads) <= len(recent):
            return
        if len(recent) == 1 and stream.leading < min(64, max(self.count // 2, 1)):
            return
        leap = median_low(leads)
        if self.doubt is not None and self.doubt[0] is None and self.count <= 1_024:
            self.doubt = None, self.now + leap - DAY
        else:
            goes_on = self.doubt is not None and self.doubt[0] is not None and self.count - self.leapt <= 1_024
            floor = self.doubt[0] if goes_on else self.now
            self.doubt = floor, floor + (self.now + leap - floor) // 2
        self.leapt = self.count
        self.go_to(self.now + leap)
        for each in self.streams:
            each.lead = max(each.lead - leap, 0)

    def take_lead(self, stream, most):
        if stream.time <= self.now + most:
            stream.lead = 0
        elif not self.now - DAY <= stream.time - stream.lead <= self.now + most:
            stream.lead = stream.time - self.now

    def take(self, time, name):
        """Return the clock, and the record's own time on its scale."""
        if self.now is None:
            self.now, self.doubt = time, (None, time - DAY)
        usual = sorted(self.steps)[-2] if len(self.steps) > 1 else 0
        most = max(STEP, 2 * usual, 2 * self.usual_before)
        self.count += 1
        stream = self.stream(name)
        stream.time, stream.at = time, self.count
        from_before = self.is_from_before(time)
        if from_before:
            stream.leading, stream.before = 0, stream.before + 1
            self.leap_back(stream)
        self.take_lead(stream, most)
        if stream.lead:
            stream.leading, stream.before = stream.leading + 1, 0
            self.leap(stream)
            self.take_lead(stream, most)
        if not stream.lead and not self.is_from_before(time):
            stream.leading = stream.before = 0
        self.go_to(time - stream.lead)
        if self.count % 64 == 0:
            self.usual_before = sorted(self.steps)[-2] if len(self.steps) > 1 else 0
            self.steps = []
        return self.now + self.behind, max(time, self.now - DAY) + self.behind
