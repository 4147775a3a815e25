"""Sends alerts to their receiver until it has taken them."""

import email.utils
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import aiohttp
from resonance.pipeline import exact_json
from resonance.pipeline.forward.consumer import AlertConsumer, WaitingNotice
from resonance.pipeline.forward.notices import Notice
from resonance.pipeline.forward.receivers import Receiver

REQUEST_SECONDS: Final = 10.0
"""How long one request may take."""

PASS_SECONDS: Final = 30.0
"""How long requests may go on before the consumer has to poll."""

AGAIN_SECONDS: Final = 60.0
"""Distance at which a receiver that forgets open alerts hears of them again."""

PAUSES: Final = (1.0, 60.0)
"""First and longest pause between two attempts, in seconds: each is twice as long as the one before."""

LONGEST_WISH: Final = 900.0
"""Longest pause that a receiver can wish for (``Retry-After``)."""

REFUSALS: Final = (400, 413, 422)
"""Statuses that are about an alert; all others but success may pass, or are about the URL or the token."""

_log = logging.getLogger(__name__)


class NotTakenError(Exception):
    """The receiver takes nothing now, and wishes for a pause in seconds."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class AlertDelivery:
    """Sends what waits in a consumer, and removes it there once it is taken.

    An alert that is refused is left out when the receiver takes another one: where it refuses all, URL or token are
    wrong.
    """

    def __init__(
        self, receiver: Receiver, session: aiohttp.ClientSession, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.sent = 0
        """Alerts that were taken."""
        self.refused = 0
        """Alerts that were left out."""
        self.trouble = ""
        """Why the receiver takes nothing; empty while it does."""
        self.receiver = receiver
        self._session, self._clock = session, clock
        self._pause, self._since = PAUSES[0], 0.0
        self._next = self._repeat = clock()

    async def run(self, consumer: AlertConsumer) -> None:
        """Send what waits, unless there is a pause."""
        if self._clock() < self._next or not consumer.joined:
            return
        until, done, trouble, wish = self._clock() + PASS_SECONDS, 0, "", 0.0
        refused: list[tuple[WaitingNotice, str]] = []
        try:
            while done < len(consumer.waiting) and self._clock() < until:
                part = consumer.waiting[done : done + self.receiver.most]
                refused += await self._send(part)
                done += len(part)
            if self.receiver.forgets and self._clock() >= self._repeat:
                await self._repeat_open([each.notice for own in consumer.open.values() for each in own.values()])
                self._repeat = self._clock() + AGAIN_SECONDS
        except NotTakenError as error:
            trouble, wish = str(error), error.pause
        if refused and len(refused) == done:
            trouble, done, refused = trouble or refused[0][1], 0, []
        for each, reason in refused:
            name = f"{each.notice.key} ({'opened' if each.notice.is_open else 'cleared'})"
            _log.error("alert %s is left out, because %s does not take it: %s", name, self.receiver.shown, reason)
        self.refused += len(refused)
        self.sent += done - len(refused)
        del consumer.waiting[:done]
        self._note(trouble, wish)

    def _note(self, trouble: str, wish: float) -> None:
        """Keep whether the receiver is well, and log where that changes."""
        now = self._clock()
        if trouble:
            if not self.trouble:
                self._since = now
                _log.warning("%s takes no alerts: %s; it is tried again", self.receiver.shown, trouble)
            self._next = now + max(self._pause, min(wish, LONGEST_WISH))
            self._pause = min(2 * self._pause, PAUSES[1])
            # It may have been started anew.
            self._repeat = now
        else:
            if self.trouble:
                _log.info("%s takes alerts again after %.0f s", self.receiver.shown, now - self._since)
            self._pause = PAUSES[0]
        self.trouble = trouble

    async def _send(self, part: Sequence[WaitingNotice]) -> list[tuple[WaitingNotice, str]]:
        """Send some alerts, and return those that are refused, with the reason."""
        reason = await self._post([each.notice for each in part])
        if not reason or len(part) == 1:
            return [(each, reason) for each in part if reason]
        half = len(part) // 2
        return [*await self._send(part[:half]), *await self._send(part[half:])]

    async def _repeat_open(self, notices: Sequence[Notice]) -> None:
        # An empty list, too, shows whether the receiver answers.
        for first in range(0, max(len(notices), 1), self.receiver.most):
            await self._post(notices[first : first + self.receiver.most])

    async def _post(self, notices: Sequence[Notice]) -> str:
        """Send a request; return why it is refused, or nothing, and raise `NotTakenError` for any other failure."""
        headers = {"Content-Type": "application/json", **self.receiver.headers}
        limit, body = aiohttp.ClientTimeout(REQUEST_SECONDS), exact_json.dumps(self.receiver.body(notices))
        try:
            async with self._session.post(
                self.receiver.url, data=body, headers=headers, allow_redirects=False, timeout=limit
            ) as answer:
                status, wish = answer.status, _seconds(answer.headers.get("Retry-After", ""))
                said = (await answer.content.read(300)).decode(errors="replace").strip()
        except TimeoutError:
            raise NotTakenError(f"no answer within {REQUEST_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NotTakenError(self.receiver.without_secrets(str(error)) or type(error).__name__) from None
        reason = self.receiver.without_secrets(f"HTTP status {status} {said}".strip())
        if not 200 <= status < 300 and status not in REFUSALS:
            raise NotTakenError(reason, wish)
        return reason if status in REFUSALS else ""


def _seconds(text: str) -> float:
    """Return the seconds of a header ``Retry-After``, which has them or a date; 0 for anything else."""
    with suppress(TypeError, ValueError, OverflowError):
        return float(text) if text.isdecimal() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    return 0.0
