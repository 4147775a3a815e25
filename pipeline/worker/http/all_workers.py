"""One page for several workers of a machine: whether all are well, and where the metrics of each are."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import web
from resonance.pipeline.errors import WorkerPageError
from resonance.pipeline.worker.http import page_client
from resonance.pipeline.worker.http.status import POLL_SECONDS

ANSWER_SECONDS: Final = 3.0
"""How long a worker may take to answer: a probe of all waits for four or five seconds."""

ANSWER_BYTES: Final = 32_000_000
"""Longest page of a worker that is read: one of 1,000 partitions has a sixth of that."""

LIVE: Final[Mapping[str, type]] = {"problems": list}
SHOWN: Final[Mapping[str, type]] = {
    "ready": bool,
    "state": str,
    "problems": list,
    "warnings": list,
    "partitions": list,
    "seen": dict,
}
"""Members of ``/livez``, and those of ``/readyz`` that are no counters: what answers without them is no worker."""

UNKNOWN: Final = ("waiting", "unstable")
"""Sums that are unknown where one worker does not know its own."""


class AllWorkers:
    """What the pages of several workers say together; see `Content`.

    `addresses` are those of the workers, by their labels in the log, and `token` that of all. `absent` says of workers
    why they do not answer, as far as that is known, and `running` when those began that have a process, by the
    monotonic clock.
    """

    own_page = "/workers"

    def __init__(self, addresses: Mapping[str, str], token: str = "") -> None:
        self.absent: dict[str, str] = {}
        self.running: dict[str, float] = {}
        self.silent: dict[str, float] = {}
        """Since when workers have left every question without an answer."""
        self._addresses = addresses
        self._token = token

    async def live(self) -> tuple[bool, dict[str, Any]]:
        """Return whether all workers make progress that have a process; one that has ended is started again."""
        answers = await self._ask("/livez", LIVE)
        now = time.monotonic()
        silent = {label: now - max(since, self.running.get(label, now)) for label, since in self.silent.items()}
        problems = [
            *(f"worker {label}: {why}" for label, shown in answers for why in shown["problems"]),
            *(
                f"worker {label}: it has not answered for {age:.0f} s (at most {POLL_SECONDS:g} s are fine)"
                for label, age in silent.items()
                if age > POLL_SECONDS
            ),
        ]
        return not problems, {"live": not problems, "problems": problems}

    async def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether all workers answer records, and their partitions and sums of their counters."""
        answers = await self._ask("/readyz", SHOWN)
        silent = [label for label in self._addresses if label not in dict(answers)]
        problems = [
            *(f"worker {label}: {why}" for label, shown in answers for why in shown["problems"]),
            *(f"worker {label}: {self.absent.get(label, 'it does not answer')}" for label in silent),
        ]
        states = [shown["state"] for _, shown in answers if shown["state"] != "running"]
        totals: dict[str, float | None] = {name: None for name in UNKNOWN if silent}
        for _, shown in answers:
            for name in shown.keys() - SHOWN.keys():
                before = totals.setdefault(name, 0)
                if before is None or not isinstance(shown[name], int | float):
                    totals[name] = None
                else:
                    totals[name] = round(before + shown[name], 3)
        return not problems, {
            "ready": not problems,
            "state": next(iter(states), "starting" if silent else "running"),
            "problems": problems,
            "warnings": [f"worker {label}: {what}" for label, shown in answers for what in shown["warnings"]],
            "partitions": sorted(name for _, shown in answers for name in shown["partitions"]),
            **totals,
            "seen": {name: seen for _, shown in answers for name, seen in shown["seen"].items()},
            "workers": {label: {"page": self._addresses[label], "state": shown["state"]} for label, shown in answers},
        }

    async def page(self, request: web.Request) -> tuple[bytes, str]:
        """Return where the metrics of each worker are, as Prometheus' discovery over HTTP reads it."""
        host = request.url.host or ""
        ports = (urlsplit(at).port for at in self._addresses.values())
        targets = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for port in ports]
        return orjson.dumps([{"targets": targets}]), "application/json"

    async def resume(self, partition: str | None) -> list[str]:
        """Resume paused partitions of all workers that answer, and return their names."""
        # One that hangs would hold up the answer for longer than who wants it waits.
        at = [self._addresses[label] for label, _ in await self._ask("/readyz", SHOWN)]
        done = await asyncio.gather(
            *(asyncio.to_thread(page_client.resume, each, partition, self._token) for each in at),
            return_exceptions=True,
        )
        for found in done:
            if isinstance(found, BaseException) and not isinstance(found, WorkerPageError):
                raise found
        return [name for found in done if not isinstance(found, BaseException) for name in found]

    async def _ask(self, path: str, members: Mapping[str, type]) -> list[tuple[str, dict[str, Any]]]:
        """Return what the workers that answer say on a page for probes."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ANSWER_SECONDS)) as session:
            answers = await asyncio.gather(*(_json(session, f"{at}{path}", members) for at in self._addresses.values()))
        found = [(label, shown) for label, shown in zip(self._addresses, answers, strict=True) if shown is not None]
        began = {**dict.fromkeys(self._addresses, time.monotonic()), **self.silent}
        self.silent = {label: since for label, since in began.items() if label not in dict(found)}
        return found


async def whole(answer: aiohttp.ClientResponse) -> bytes:
    """Return what a worker answers; a `ValueError` for more than one has to say, as another program may send."""
    found = bytearray()
    async for part in answer.content.iter_any():
        found += part
        if len(found) > ANSWER_BYTES:
            raise ValueError(f"it sends more than {ANSWER_BYTES:,} bytes")
    return bytes(found)


async def _json(session: aiohttp.ClientSession, url: str, members: Mapping[str, type]) -> dict[str, Any] | None:
    try:
        async with session.get(url, allow_redirects=False) as answer:
            return page_of(await whole(answer), members)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


def page_of(body: bytes, members: Mapping[str, type]) -> dict[str, Any]:
    """Return a page for probes; a `ValueError` where it is none of a worker."""
    shown = orjson.loads(body)
    if not isinstance(shown, dict) or not all(_is_of(shown.get(name), kind) for name, kind in members.items()):
        raise ValueError("what answers there is no worker of this release")
    return shown


def _is_of(value: Any, kind: type) -> bool:
    """Return whether a member is of its kind; lists are of texts."""
    if isinstance(value, list):
        return kind is list and all(isinstance(each, str) for each in value)
    return isinstance(value, kind)
