"""One page for several workers of a machine: what their own pages say, added up."""

import asyncio
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import aiohttp
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from resonance.pipeline.errors import WorkerPageError
from resonance.pipeline.worker.http import page_client
from resonance.pipeline.worker.http.metrics import exposition

ANSWER_SECONDS: Final = 5.0
"""How long a worker may take to answer."""

LARGEST: Final = frozenset(
    {"resonance_build_info", "resonance_poll_age_seconds", "resonance_recovery_seconds", "python_info"}
)
SMALLEST: Final = frozenset({"resonance_ready", "process_start_time_seconds"})
"""Metrics of which the sum would say nothing: the largest or the smallest value stands for all workers."""

STARTED: Final = "process_start_time_seconds"
SHOWN: Final = ("ready", "state", "problems", "partitions", "seen")
"""Members of ``/readyz`` that are no counters."""

Page = Sequence[Metric]


class SumOfWorkers:
    """What the pages of several workers say together; see `Content`.

    `addresses` are those of the workers, by their labels in the log, and `token` that of all. `absent` says of workers
    why they do not answer, as far as that is known.
    """

    def __init__(self, addresses: Mapping[str, str], token: str = "") -> None:
        self.absent: dict[str, str] = {}
        self._addresses = addresses
        self._token = token
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        # The last page of each worker.
        self._pages: dict[str, Page] = {}
        # Counters of processes that have ended: a sum that falls would look like a restart of all.
        self._ended: list[Metric] = []

    async def live(self) -> tuple[bool, dict[str, Any]]:
        """Return whether all workers that answer make progress; one that has ended is started again."""
        answers = await self._ask("/livez")
        problems = [f"worker {label}: {why}" for label, shown in answers for why in shown.get("problems", ())]
        return not problems, {"live": not problems, "problems": problems}

    async def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether all workers answer records, and their partitions and sums of their counters."""
        answers = await self._ask("/readyz")
        silent = [label for label in self._addresses if label not in dict(answers)]
        problems = [
            *(f"worker {label}: {why}" for label, shown in answers for why in shown["problems"]),
            *(f"worker {label}: {self.absent.get(label, 'it does not answer')}" for label in silent),
        ]
        states = [shown["state"] for _, shown in answers if shown["state"] != "running"]
        totals: dict[str, float] = {}
        for _, shown in answers:
            for name in shown.keys() - set(SHOWN):
                totals[name] = round(totals.get(name, 0) + shown[name], 3)
        return not problems, {
            "ready": not problems,
            "state": next(iter(states), "starting" if silent else "running"),
            "problems": problems,
            "partitions": sorted(name for _, shown in answers for name in shown["partitions"]),
            **totals,
            "seen": {name: seen for _, shown in answers for name, seen in shown["seen"].items()},
            "workers": {label: {"page": self._addresses[label], "state": shown["state"]} for label, shown in answers},
        }

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the sums of the workers' metrics; counters never fall while this process runs."""
        async with self._session() as session:
            texts = await asyncio.gather(*(_text(session, f"{at}/metrics") for at in self._addresses.values()))
        return await asyncio.to_thread(self._sums, dict(zip(self._addresses, texts, strict=True)), accept)

    async def resume(self, partition: str | None) -> list[str]:
        """Resume paused partitions of all workers, and return their names."""
        done = await asyncio.gather(
            *(asyncio.to_thread(page_client.resume, at, partition, self._token) for at in self._addresses.values()),
            return_exceptions=True,
        )
        for found in done:
            if isinstance(found, BaseException) and not isinstance(found, WorkerPageError):
                raise found
        return [name for found in done if not isinstance(found, BaseException) for name in found]

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(headers=self._headers, timeout=aiohttp.ClientTimeout(ANSWER_SECONDS))

    async def _ask(self, path: str) -> list[tuple[str, dict[str, Any]]]:
        """Return what the workers that answer say on a page."""
        async with self._session() as session:
            answers = await asyncio.gather(*(_json(session, f"{at}{path}") for at in self._addresses.values()))
        return [(label, shown) for label, shown in zip(self._addresses, answers, strict=True) if shown is not None]

    def _sums(self, texts: dict[str, str | None], accept: str) -> tuple[bytes, str]:
        silent = {label for label, text in texts.items() if text is None}
        for label, text in texts.items():
            if text is not None:
                old, new = self._pages.get(label, ()), tuple(text_string_to_metric_families(text))
                if old and _started(new) != _started(old):
                    self._ended = add([*self._ended, *_counters(old)])
                self._pages[label] = new
        pages = (_counters(page) if label in silent else page for label, page in self._pages.items())
        families = add([*self._ended, *chain.from_iterable(pages)])
        if silent:
            families = [family for family in families if family.name != "resonance_ready"]
            families.append(_not_ready())
        registry = CollectorRegistry()
        registry.register(_Families(families))
        return exposition(registry, accept)


def add(families: Iterable[Metric]) -> list[Metric]:
    """Return metrics of the same names as one each: samples with the same labels become their sum, or `LARGEST`."""
    sums: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in families:
        sums.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        into = values.setdefault(family.name, {})
        join = max if family.name in LARGEST else min if family.name in SMALLEST else operator.add
        for sample in family.samples:
            at = sample.name, tuple(sorted(sample.labels.items()))
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


def _counters(page: Page) -> Iterator[Metric]:
    return (family for family in page if family.type in ("counter", "histogram"))


def _started(page: Page) -> float | None:
    return next((family.samples[0].value for family in page if family.name == STARTED), None)


def _not_ready() -> Metric:
    family = Metric("resonance_ready", "1 while every worker is ready, as /readyz says.", "gauge")
    family.add_sample("resonance_ready", {}, 0.0)
    return family


async def _text(session: aiohttp.ClientSession, url: str) -> str | None:
    try:
        async with session.get(url) as answer:
            return await answer.text() if answer.status in (200, 503) else None
    except (aiohttp.ClientError, TimeoutError):
        return None


async def _json(session: aiohttp.ClientSession, url: str) -> dict[str, Any] | None:
    try:
        async with session.get(url) as answer:
            return dict(await answer.json())
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
