"""The consumer of alerts or incidents: its group remembers up to where the receiver has taken them."""

import logging
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.forward.notices import Notice, SentKind, notice_of
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.kafka.acl import for_group, for_topic
from resonance.pipeline.kafka.clients import librdkafka, new_client
from resonance.pipeline.kafka.errors import right_refused
from resonance.pipeline.kafka.log_reader import LogReader, assign_unpaused, is_passing, records_of
from resonance.pipeline.records import Record, TopicPartition

WAITING: Final = 1_000
"""Alerts that wait in memory for the receiver, at most; the others wait on their topic."""

PATIENCE: Final = 30.0
"""Seconds without progress of a start after which the broker is given up."""

CLOSE_SECONDS: Final = 10.0
"""How long the broker may take to answer what is committed last."""

MAX_POLL_SECONDS: Final = 300.0
"""Time between two polls after which the group gives the partitions to others."""

_TOO_LATE: Final = (
    *(KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS),
    *(KafkaError._STATE, KafkaError._ASSIGNMENT_LOST),
)
"""Codes of a commit after a rebalance: the next consumer of the partition sends the same alerts again."""

_log = logging.getLogger(__name__)


class WaitingNotice(NamedTuple):
    """A message that the receiver has not taken yet."""

    at: TopicPartition
    offset: int
    notice: Notice


def membership(settings: Settings, group: str) -> dict[str, Any]:
    """Return the properties of a member of a group that commits by itself."""
    session = round(1000 * settings.broker.session_timeout)
    return {
        **{"group.id": group, "enable.auto.commit": False},
        **{"session.timeout.ms": session, "heartbeat.interval.ms": max(min(session // 3, 3_000), 1)},
        "max.poll.interval.ms": max(session, round(1000 * MAX_POLL_SECONDS)),
    }


def close(member: Consumer) -> None:
    """Leave the group; without an answer of the broker it notices that by itself."""
    leaving = threading.Thread(target=member.close, daemon=True)
    leaving.start()
    leaving.join(CLOSE_SECONDS)


class AlertConsumer:
    """Reads the alerts, or the incidents, as a member of a group; a new group begins with those that are open.

    Raises `BrokerError` where the topic cannot be read, and `DeniedError` where the cluster refuses a log-in or a
    right.
    """

    def __init__(self, settings: Settings, group: str, kind: SentKind = "alerts") -> None:
        self.topic = settings.topic(kind)
        self.waiting: list[WaitingNotice] = []
        """Those of a partition in their order."""
        self.joined = False
        """Whether the group has assigned partitions, perhaps none."""
        self.trouble = ""
        """Why no broker can be reached; empty while one can."""
        self.open: dict[TopicPartition, dict[str, WaitingNotice]] = {}
        """What is open, by partition of this member and by its place."""
        self._kind: SentKind = kind
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._is_paused = False
        self._client, self._group = librdkafka(settings), group
        self._refusals = Refusals(self._client)
        own = {
            **membership(settings, group),
            **{"isolation.level": "read_committed", "auto.offset.reset": "earliest"},
            **{"on_commit": self._answered, "error_cb": self._note, "log_level": 0},
        }
        self._consumer = new_client(Consumer, {**self._client, **own})
        self._consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self, timeout: float) -> None:
        """Take what comes within `timeout` seconds; where there is no room for it, only stay a member of the group."""
        room = max(WAITING - len(self.waiting), 0)
        if self._is_paused == bool(room):
            self._is_paused = not room
            change = self._consumer.resume if room else self._consumer.pause
            change(self._consumer.assignment())
        messages = self._consumer.consume(max(room, 1), timeout)
        for message in messages:
            self._take(message)
        if not messages:
            self._refusals.check()
            if self.trouble:
                with suppress(KafkaException):
                    self._consumer.list_topics(self.topic, timeout=1.0)
                    self.trouble = ""

    def commit(self) -> None:
        """Commit up to the first alert of each partition that waits, without waiting for the broker."""
        offsets = self._next | {each.at: each.offset for each in reversed(self.waiting)}
        if new := dict(offsets.items() - self._committed.items()):
            self._consumer.commit(offsets=[Place(*at, offset) for at, offset in new.items()])
            self._committed |= new

    def close(self) -> None:
        """Leave the group; without an answer of the broker it notices that by itself."""
        close(self._consumer)

    def _take(self, message: Message) -> None:
        at, error = (message.topic(), message.partition()), message.error()
        # A message of a partition that was taken away meanwhile goes to its next consumer.
        if error is None and at in self.open:
            records = records_of(at, [message])
            if not (found := self._read(at, records)) and records[0].value is not None:
                _log.warning("%s[%d]@%d is no message of Resonance: left out", *records[0][:3])
            self.waiting += found
            self._next[at] = records[0].offset + 1
        elif error is not None and not is_passing(error) and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            denied = right_refused(self._client, error, for_topic(self.topic, ["Read"]))
            raise denied or BrokerError(f"{self.topic} cannot be read: {error.str()}")

    def _read(self, at: TopicPartition, records: Iterable[Record]) -> list[WaitingNotice]:
        """Note what records of a partition open and end, and return what they say."""
        found = []
        for record in records:
            notice = notice_of(self._kind, record)
            if record.value is None and (gone := self.open[at].get((record.key or b"").decode(errors="replace"))):
                # Nothing of it is known any more.
                notice = gone.notice._replace(is_open=False)
            if notice is None:
                continue
            before = self.open[at].pop(notice.place, None)
            if notice.is_open:
                self.open[at][notice.place] = WaitingNotice(at, record.offset, notice)
            # What is open is repeated; that its severity was another one is said once.
            if before is not None and before.notice.severity != notice.severity:
                notice = notice._replace(was=before.notice.severity)
            found.append(WaitingNotice(at, record.offset, notice))
        return found

    def _answered(self, error: KafkaError | None, places: Collection[Place]) -> None:
        """Take the answer to a commit; one that failed is repeated, if that can help."""
        for place in places:
            if (problem := place.error or error) is None:
                continue
            self._committed.pop((place.topic, place.partition), None)
            if problem.code() not in _TOO_LATE and not is_passing(problem):
                denied = right_refused(self._client, problem, for_group(self._group))
                reason = f"the offsets of group {self._group} cannot be committed: {problem.str()}"
                raise denied or BrokerError(reason)

    def _note(self, error: KafkaError) -> None:
        self._refusals.note(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.trouble = f"no broker answers at {self._client['bootstrap.servers']}: {error.str()}"

    def _assigned(self, consumer: Any, places: Collection[Place]) -> None:
        """Begin with partitions: learn which of their alerts are open, and go on where the group stands."""
        here = [(place.topic, place.partition) for place in places]
        with LogReader(self._client, self._group, PATIENCE) as reader:
            committed, bounds = reader.committed(here), reader.bounds(here)
            # An offset behind the end is of a topic of before.
            known = {at: max(committed[at], first) for at, (first, end) in bounds.items() if 0 <= committed[at] <= end}
            self._next = {at: known.get(at, bounds[at][1]) for at in here}
            self.open = {at: {} for at in here}
            for at, records in reader.read({at: (bounds[at][0], self._next[at]) for at in here}):
                self._read(at, records)
        # In the order of their offsets.
        self.waiting += [each for at in here if at not in known for each in self.open[at].values()]
        self._committed = {at: committed[at] for at in known}
        assign_unpaused(consumer, [Place(*at, self._next[at]) for at in here])
        self.joined, self._is_paused = True, False

    def _revoked(self, *_: Any) -> None:
        # Their next consumer begins at what was committed.
        self.waiting, self.open, self._next, self._committed = [], {}, {}, {}
        self.joined = False
