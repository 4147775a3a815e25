"""The consumer group: members, generations, and who owns which partition."""

from itertools import count
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from tests.simulation.logs import RefusedError
from tests.simulation.scheduler import Scheduler

REJOIN_SECONDS = 12.0
"""How long a rebalance waits for members that are slow to give up what they own."""


class Who(NamedTuple):
    """As whom a member does something."""

    generation: int = -1
    member: str = ""
    instance: str = ""
    """The name of a static member."""


class Member:
    """A member as the coordinator knows it."""

    def __init__(self, now: float, instance: str) -> None:
        self.heard = now
        # Also its client id.
        self.instance = instance
        # Waits for the next generation.
        self.joining = True


class Group:
    """The classic protocol with eager rebalances and static members (KIP-345), as in Kafka's GroupCoordinator.

    `partitions` are assigned in turn to the members.
    """

    def __init__(self, sim: Scheduler, partitions: list[tuple[str, int]], session: float) -> None:
        self.sim, self.session = sim, session
        self.generation = 0
        self.offsets: dict[tuple[str, int], tuple[int, str]] = {}
        # Of transactions that have not ended, by producer id.
        self.pending: dict[int, dict[tuple[str, int], tuple[int, str]]] = {}
        self.assigned: dict[str, tuple[tuple[str, int], ...]] = {}
        self._partitions = partitions
        self._members: dict[str, Member] = {}
        self._numbers = count(1)
        # Since when members are waited for; None in a generation that stands.
        self._since: float | None = None
        self._look()

    def _known(self, member: str, instance: str) -> Member:
        """Return a member; refused is one that another process has replaced, and what is no member any more."""
        current = self._current(instance)
        if current not in ("", member):
            raise RefusedError(KafkaError.FENCED_INSTANCE_ID)
        if member not in self._members or (instance and not current):
            raise RefusedError(KafkaError.UNKNOWN_MEMBER_ID)
        return self._members[member]

    def _current(self, instance: str) -> str:
        """Return the id of the member that has an instance id."""
        return next((name for name, member in self._members.items() if instance and member.instance == instance), "")

    def check(self, who: Who, *, transactional: bool) -> Member | None:
        """Refuse what is done by other than a member of the present generation.

        Like Kafka, it takes what names no member and no generation in a transaction, or while there are no members.
        """
        if who == Who() and (transactional or not self._members):
            return None
        member = self._known(who.member, who.instance)
        if who.generation != self.generation:
            raise RefusedError(KafkaError.ILLEGAL_GENERATION)
        return member

    def join(self, member: str, instance: str) -> str:
        """Take part in the next generation, or take a static member's place in this one; return the member's id."""
        if member:
            self._known(member, instance)
        else:
            member, replaced = f"member-{next(self._numbers)}", self._current(instance)
            if replaced:
                self._members[member] = self._members.pop(replaced)
                self.assigned[member] = self.assigned.pop(replaced, ())
                self._members[member].heard = self.sim.now
                if self._since is None:
                    return member
        self._members.setdefault(member, Member(self.sim.now, instance)).joining = True
        self._members[member].heard = self.sim.now
        self.rebalance()
        return member

    def joined(self, member: str, instance: str) -> tuple[int, tuple[tuple[str, int], ...]] | None:
        """Return the generation and the partitions of a member that joined; None while others are waited for."""
        known = self._known(member, instance)
        known.heard = self.sim.now
        return None if known.joining else (self.generation, self.assigned[member])

    def heartbeat(self, who: Who) -> None:
        """Stay a member; refused with what makes the member join again."""
        member = self.check(who, transactional=False)
        if member is not None:
            member.heard = self.sim.now
        if self._since is not None:
            raise RefusedError(KafkaError.REBALANCE_IN_PROGRESS)

    def leave(self, member: str) -> None:
        """Leave at once."""
        if self._members.pop(member, None):
            self.rebalance()

    def clients(self) -> list[str] | None:
        """Return the client ids of the members; None in a rebalance."""
        return [member.instance for member in self._members.values()] if self._since is None else None

    def rebalance(self) -> None:
        """Begin a new generation, unless one is beginning."""
        if self._since is None:
            self._since = self.sim.now
            # Others may come at the same time.
            self.sim.at(0.05, self._complete)
        else:
            self._complete()

    def _complete(self) -> None:
        if self._since is None or self.sim.now < self._since + 0.05:
            return
        if self.sim.now > self._since + REJOIN_SECONDS:
            self._members = {name: member for name, member in self._members.items() if member.joining}
        if not all(member.joining for member in self._members.values()):
            return
        self._since = None
        self.generation += 1
        names = sorted(self._members)
        turn = self.sim.random.randrange(2)
        owned: dict[str, list[Any]] = {name: [] for name in names}
        for i, at in enumerate(self._partitions if names else ()):
            owned[names[(i + turn) % len(names)]].append(at)
        self.assigned = {name: tuple(partitions) for name, partitions in owned.items()}
        for member in self._members.values():
            member.joining = False
            member.heard = self.sim.now

    def _look(self) -> None:
        """Remove members that were not heard of for a session, from time to time."""
        late = [name for name, member in self._members.items() if self.sim.now - member.heard > self.session]
        for name in late:
            del self._members[name]
        if late:
            self.rebalance()
        self._complete()
        self.sim.at(0.25, self._look)
