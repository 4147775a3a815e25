"""A thread that compares the topics of a running worker with those that it began with.

Kafka's clients go on by a topic's name: of a topic that was deleted and recreated they read the new log at the old
offsets. A thread therefore requests the ids of all topics twice a second, and at once for each commit: what a commit
covers was read before its request began, so that no record of another log passes. A broker that does not answer says
nothing of the topics: the commit waits for it.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Self

from resonance.pipeline.checkpoint.compatibility import check_topics
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError, DeliveryError, DeniedError, MismatchError, ResonanceError
from resonance.pipeline.kafka.admin import ClusterAdmin, FoundTopic

INTERVAL: Final = 0.5
"""Seconds between two requests while nothing is committed."""

SEND_AGE: Final = 1.0
"""Age in seconds of an answer that still covers what is sent at least once: a request for each batch costs too much."""

CONFIRM_SECONDS: Final = 0.2
"""Pause before a difference is looked at again: a broker may lag behind the others for a moment."""

ANSWER_SECONDS: Final = 2.0
"""Time for one answer: where it does not come, another broker may give the next one."""

_log = logging.getLogger(__name__)


class TopicWatch:
    """Watches the topics of a worker, which `describe` returns by name where the broker answers.

    `check` raises an error for topics that are not those of before, with which `failed` is called once in this thread.
    """

    def __init__(
        self,
        describe: Callable[[], Mapping[str, FoundTopic]],
        check: Callable[[Mapping[str, FoundTopic]], None],
        failed: Callable[[ResonanceError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._describe, self._check, self._failed, self._clock = describe, check, failed, clock
        self._changed = threading.Condition()
        self._looking = threading.Lock()
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._covered = float("-inf")
        self._error: ResonanceError | None = None
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)

    @classmethod
    def of(cls, source: Callable[[], DeploymentContext], failed: Callable[[ResonanceError], None]) -> Self:
        """Return the watch of a deployment, over a connection of its own; the embedded broker has no ids to watch."""
        if (known := source()).deployment.embedded:
            return cls(dict, lambda _: None, failed)
        topics = [*known.identities, *known.deployment.output_ids]
        made: list[ClusterAdmin] = []

        def describe() -> Mapping[str, FoundTopic]:
            if not made:
                made.append(ClusterAdmin(known.client, ANSWER_SECONDS))
            try:
                return made[0].find(topics)
            except Exception:
                # The client may stay with a broker that is away; a new connection finds another one.
                made.clear()
                raise

        return cls(describe, lambda found: check_topics(source(), found), failed)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its present request."""
        self._ended.set()
        self._wanted.set()

    def explained(self, error: BaseException) -> BaseException:
        """Return why a worker fails: where topics have changed, that is the reason for what the broker says."""
        if not isinstance(error, (BrokerError, DeliveryError, MismatchError)):
            return error
        return self.look() or error

    def look(self) -> ResonanceError | None:
        """Compare the topics now; return what does not fit, if two answers in a row agree on it."""
        with self._looking:
            if self._error is None and self._difference() is not None:
                self._ended.wait(CONFIRM_SECONDS)
                if (error := self._difference()) is not None:
                    with self._changed:
                        self._error = error
                        self._changed.notify_all()
                    self._failed(error)
            return self._error

    def wait(self, seconds: float, age: float = 0.0) -> None:
        """Return once a request that began at most `age` seconds before this call is answered with the same topics.

        Raises the error of topics that have changed, and DeliveryError where no broker answers for that many seconds.
        """
        since = self._clock() - age
        with self._changed:
            if self._covered < since:
                self._wanted.set()
            self._changed.wait_for(lambda: self._error is not None or self._covered >= since, seconds)
            if self._error is not None:
                raise self._error
            if self._covered < since:
                raise DeliveryError(
                    f"no broker described the topics for {seconds:g} s{self._trouble and f' ({self._trouble})'}, so "
                    "that nothing can be committed; look at the brokers, and start again"
                )

    def _run(self) -> None:
        while self.look() is None and not self._ended.is_set():
            self._wanted.wait(INTERVAL)
            self._wanted.clear()

    def _difference(self) -> ResonanceError | None:
        """Request the topics once; return what does not fit."""
        began = self._clock()
        try:
            found = self._describe()
        except DeniedError as error:
            # That is an answer, and the client that lacks a right names it with what it was about to do.
            _log.debug("topics are not described: %s", error)
            found = None
        except Exception as error:
            # Commits wait for this thread: it outlives also a certificate that cannot be read for a moment.
            self._unknown(error)
            return None
        try:
            if found is not None:
                self._check(found)
        except ResonanceError as error:
            return error
        except Exception as error:
            self._unknown(error)
            return None
        with self._changed:
            self._covered, self._trouble = began, ""
            self._changed.notify_all()
        return None

    def _unknown(self, error: Exception) -> None:
        """Keep why nothing is known of the topics, for who waits in vain."""
        trouble = str(error) if isinstance(error, ResonanceError) else repr(error)
        if trouble != self._trouble:
            level = logging.DEBUG if isinstance(error, BrokerError) else logging.WARNING
            _log.log(level, "the topics are not compared with those of the start: %s", trouble)
        self._trouble = trouble
