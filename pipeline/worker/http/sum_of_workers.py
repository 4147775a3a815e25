"""One page for several workers of a machine: what their own pages say, added up."""

import asyncio
import operator
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

import aiohttp
import orjson
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from resonance.pipeline.errors import WorkerPageError
from resonance.pipeline.worker.http import page_client
from resonance.pipeline.worker.http.metrics import exposition
from resonance.pipeline.worker.http.signature import signed
from resonance.pipeline.worker.http.status import POLL_SECONDS

ANSWER_SECONDS: Final = 3.0
"""How long a worker may take to answer: a probe of the sum waits for four or five seconds."""

ANSWER_BYTES: Final = 32_000_000
"""Longest page of a worker that is read: one of 1,000 partitions has a sixth of that."""

LARGEST: Final = frozenset(
    {"resonance_build_info", "resonance_poll_age_seconds", "resonance_recovery_seconds", "python_info"}
)
SMALLEST: Final = frozenset({"resonance_ready", "process_start_time_seconds"})
"""Metrics of which the sum would say nothing: the largest or the smallest value stands for all workers."""

READY: Final = "resonance_ready"
STARTED: Final = "process_start_time_seconds"
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

Page = Sequence[Metric]
Series = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a sample and its labels."""


class SumOfWorkers:
    """What the pages of several workers say together; see `Content`.

    `addresses` are those of the workers, by their labels in the log, and `token` that of all. `absent` says of workers
    why they do not answer, as far as that is known, and `running` when those began that have a process, by the
    monotonic clock.
    """

    def __init__(self, addresses: Mapping[str, str], token: str = "") -> None:
        self.absent: dict[str, str] = {}
        self.running: dict[str, float] = {}
        self.silent: dict[str, float] = {}
        """Since when workers have left every question without an answer."""
        self._addresses = addresses
        self._token = token
        # Metrics are of one moment: pages of two, added up in another order, would count what has ended twice.
        self._adding_up = asyncio.Lock()
        # The last page of each worker.
        self._pages: dict[str, Page] = {}
        # Counters of processes that have ended and of partitions that have moved on: a sum that falls would look like
        # a restart of all, and what it falls to like that much anew.
        self._ended: list[Metric] = []

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

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the sums of the workers' metrics; counters never fall while this process runs."""
        async with self._adding_up:
            async with self._session() as session:
                texts = await asyncio.gather(*(_metrics(session, at, self._token) for at in self._addresses.values()))
            return await asyncio.to_thread(self._sums, dict(zip(self._addresses, texts, strict=True)), accept)

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

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ANSWER_SECONDS))

    async def _ask(self, path: str, members: Mapping[str, type]) -> list[tuple[str, dict[str, Any]]]:
        """Return what the workers that answer say on a page for probes."""
        async with self._session() as session:
            answers = await asyncio.gather(*(_json(session, f"{at}{path}", members) for at in self._addresses.values()))
        found = [(label, shown) for label, shown in zip(self._addresses, answers, strict=True) if shown is not None]
        began = {**dict.fromkeys(self._addresses, time.monotonic()), **self.silent}
        self.silent = {label: since for label, since in began.items() if label not in dict(found)}
        return found

    def _sums(self, texts: dict[str, str | None], accept: str) -> tuple[bytes, str]:
        silent = set()
        for label, text in texts.items():
            if (page := _page(text)) is None:
                silent.add(label)
            else:
                self._ended = add([*self._ended, *_lost(self._pages.get(label, ()), page)])
                self._pages[label] = page
        pages = (_counters(page) if label in silent else page for label, page in self._pages.items())
        families = add([*self._ended, *chain.from_iterable(pages)])
        if silent:
            families = [family for family in families if family.name != READY]
            families.append(_not_ready())
        registry = CollectorRegistry()
        registry.register(_Families(families))
        return exposition(registry, accept)


def add(families: Iterable[Metric]) -> list[Metric]:
    """Return metrics of the same names as one each: samples with the same labels become their sum, or `LARGEST`.

    A partition has one worker. While it goes to another, both may have a gauge of it, which is then no sum either.
    """
    sums: dict[str, Metric] = {}
    values: dict[str, dict[Series, float]] = {}
    for family in families:
        sums.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        into = values.setdefault(family.name, {})
        for sample in family.samples:
            at = _series(sample)
            is_largest = family.name in LARGEST or (family.type == "gauge" and "partition" in sample.labels)
            join = max if is_largest else min if family.name in SMALLEST else operator.add
            into[at] = join(into[at], sample.value) if at in into else sample.value
    for name, family in sums.items():
        for (sample_name, labels), value in values[name].items():
            family.add_sample(sample_name, dict(labels), value)
    return list(sums.values())


class _Families(Collector):
    """Metrics that are known already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        yield from self._families


def _page(text: str | None) -> Page | None:
    """Return what a worker's page says; None where it is none."""
    with suppress(ValueError):
        page = tuple(text_string_to_metric_families(text or ""))
        if any(family.name == READY for family in page):
            return page
    return None


def _counters(page: Page) -> Iterator[Metric]:
    return (family for family in page if family.type in ("counter", "histogram"))


def _lost(old: Page, new: Page) -> Iterator[Metric]:
    """Yield what the counters of a page had reached that begin anew on the next one, or are on it no more."""
    same = _started(old) == _started(new)
    now = {_series(sample): sample.value for family in _counters(new) if same for sample in family.samples}
    for family in _counters(old):
        lost = Metric(family.name, family.documentation, family.type)
        lost.samples = [sample for sample in family.samples if now.get(_series(sample), -1) < sample.value]
        yield lost


def _series(sample: Sample) -> Series:
    return sample.name, tuple(sorted(sample.labels.items()))


def _started(page: Page) -> float | None:
    return next((family.samples[0].value for family in page if family.name == STARTED), None)


def _not_ready() -> Metric:
    family = Metric(READY, "1 while every worker is ready, as /readyz says.", "gauge")
    family.add_sample(READY, {}, 0.0)
    return family


async def whole(answer: aiohttp.ClientResponse) -> bytes:
    """Return what a worker answers; a `ValueError` for more than one has to say, as another program may send."""
    found = bytearray()
    async for part in answer.content.iter_any():
        found += part
        if len(found) > ANSWER_BYTES:
            raise ValueError(f"it sends more than {ANSWER_BYTES:,} bytes")
    return bytes(found)


async def _metrics(session: aiohttp.ClientSession, worker: str, token: str) -> str | None:
    headers = signed(token, "GET", worker, "/metrics")
    try:
        async with session.get(f"{worker}/metrics", headers=headers, allow_redirects=False) as answer:
            return (await whole(answer)).decode() if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


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
