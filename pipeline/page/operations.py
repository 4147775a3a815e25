"""How the deployment itself does: its group on the broker, and what its workers' own pages report.

They are read only while a page is open, and at most every few seconds.
"""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families
from resonance.pipeline.errors import system_reason
from resonance.pipeline.kafka.acl import Acl
from resonance.pipeline.kafka.admin import latest_offsets
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import code_of, missing_right, reason_of, right_refused
from resonance.pipeline.kafka.groups import OffsetReader, group_state
from resonance.pipeline.worker.http.all_workers import SHOWN as SHOWN_BY_WORKERS
from resonance.pipeline.worker.http.all_workers import page_of, whole
from resonance.pipeline.worker.http.page_client import VALID_SECONDS, signed

FRESH_SECONDS: Final = 3.0
"""Age up to which a report is shown again."""

ANSWER_SECONDS: Final = 3.0
"""How long the broker may take to answer."""

PAGE_SECONDS: Final = 4.0
"""How long a page of a worker may take: that of several waits for each of them (`all_workers`)."""

FAILURES: Final = (aiohttp.ClientError, TimeoutError, ValueError)
"""What the question for a page ends with where no worker of this release gives it."""

SHOWN: Final = {
    "resonance_records_total": "records",
    "resonance_lag_records": "lag",
    "resonance_paused": "paused",
    "resonance_streams": "streams",
    "resonance_clusters": "clusters",
    "resonance_snapshot_age_seconds": "snapshot_age",
    "resonance_snapshot_bytes": "snapshot_bytes",
    "resonance_replay_from_lag_records": "replay_lag",
    "resonance_last_record_age_seconds": "record_age",
}
"""Metrics of a partition that are shown, and under which name."""


class Operations:
    """Reports on the consumer group of a deployment, which processes `topics`, and on its workers.

    Of these the addresses of the pages are given, such as ``http://127.0.0.1:6066``, and their `token`, if any.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        group: str,
        topics: Sequence[str],
        workers: Sequence[str],
        token: str = "",
    ) -> None:
        self._client = dict(client)
        self._group = group
        self._right = Acl("group", group, ("Describe",), "see where the group stands")
        self._topics = tuple(topics)
        self._workers = tuple(workers)
        self._token = token
        self._lock = asyncio.Lock()
        self._report: dict[str, Any] = {}
        self._made = float("-inf")

    async def report(self) -> dict[str, Any]:
        """Return the group with its members and partitions, and each worker as it describes itself."""
        async with self._lock:
            if time.monotonic() - self._made > FRESH_SECONDS:
                group, *workers = await asyncio.gather(
                    asyncio.to_thread(self._of_group), *map(self._of_worker, self._workers)
                )
                self._report = {"group": group, "workers": workers}
                self._made = time.monotonic()
            return dict(self._report)

    async def waiting(self) -> int | None:
        """Return how many records lie behind the committed offsets; None where that is not known of every partition."""
        async with self._lock:
            return await asyncio.to_thread(self._waiting)

    def _waiting(self) -> int | None:
        with suppress(KafkaException, TimeoutError):
            lags = [each["lag"] for each in self._lags()]
            return sum(lags) if lags and None not in lags else None
        return None

    @cached_property
    def _admin(self) -> AdminClient:
        return new_client(AdminClient, {"log_level": 0, **self._client})

    @cached_property
    def _offsets(self) -> OffsetReader:
        return OffsetReader(self._client, self._group)

    def _of_group(self) -> dict[str, Any]:
        """Return the group's members and the lag of each partition, or why the broker does not say."""
        found: dict[str, Any] = {"name": self._group, "members": [], "partitions": []}
        group = None
        try:
            group = group_state(self._admin, self._group, ANSWER_SECONDS)
        except (KafkaException, TimeoutError) as error:
            if code_of(error) == KafkaError._UNSUPPORTED_FEATURE:
                found["problem"] = (
                    f"this broker does not describe group {self._group}, as the one "
                    "inside `resonance demo` does not; each worker above still reports its own lag"
                )
                return found
            found["problem"] = self._problem("does not describe it", error)
        else:
            if group is None and self._client.get("security.protocol", "PLAINTEXT") != "PLAINTEXT":
                # A broker says nothing of groups that a user may not see.
                found["problem"] = f"group {self._group} has no members, or {missing_right(self._client, self._right)}"
        if group is not None:
            found["state"] = re.sub("(?<=[a-z])(?=[A-Z])", " ", group.state).lower()
            found["members"] = [
                {
                    "id": member.client,
                    "host": member.host,
                    "partitions": sorted(f"{topic}[{number}]" for topic, number in member.partitions),
                }
                for member in group.members
            ]
        try:
            found["partitions"] = self._lags()
        except (KafkaException, TimeoutError) as error:
            found["problem"] = self._problem("does not give its offsets", error)
        return found

    def _problem(self, what: str, error: BaseException) -> str:
        denied = right_refused(self._client, error, self._right)
        return str(denied) if denied else f"group {self._group}: the broker {what} ({reason_of(error)})"

    def _lags(self) -> list[dict[str, Any]]:
        known = self._admin.list_topics(timeout=ANSWER_SECONDS).topics
        places = [(topic, at) for topic in self._topics if topic in known for at in known[topic].partitions]
        if not places:
            return []
        found = self._offsets.committed([TopicPartition(*place) for place in places], ANSWER_SECONDS)
        stable, high = (
            latest_offsets(self._admin, places, level, ANSWER_SECONDS)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        lags = []
        for at, offset in sorted(((each.topic, each.partition), each.offset) for each in found):
            # Where nothing is committed it is not known where the group would begin.
            known = offset >= 0 or not high[at]
            lags.append(
                {
                    "partition": f"{at[0]}[{at[1]}]",
                    "committed": offset if offset >= 0 else None,
                    "lag": max(high[at] - max(offset, 0), 0) if known else None,
                    "unstable": max(high[at] - max(stable[at], offset), 0) if known else None,
                }
            )
        return lags

    async def _of_worker(self, address: str) -> dict[str, Any]:
        """Return what a worker's pages say, or that none answers."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PAGE_SECONDS)) as session:
            try:
                async with session.get(f"{address}/readyz", allow_redirects=False) as answer:
                    if answer.status not in (200, 503):
                        return {"address": address, "problem": _not_shown(address, answer.status)}
                    ready = page_of(await whole(answer), SHOWN_BY_WORKERS)
            except FAILURES as error:
                return {
                    "address": address,
                    "problem": f"no worker answers at {address} ({_reason(error)}); start it there, or give "
                    "the addresses of the workers with --worker",
                }
            found = await asyncio.gather(*(self._metrics(session, at) for at in _pages_of(address, ready)))
        rows: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for each in chain.from_iterable(partitions for partitions, _ in found):
            rows[each["partition"]] |= each
        return {
            "address": address,
            **{name: ready[name] for name in ("ready", "state", "problems")},
            "problem": "; ".join([*(problem for _, problem in found if problem), *ready["warnings"]]),
            "partitions": [rows[name] for name in sorted(rows)],
        }

    async def _metrics(self, session: aiohttp.ClientSession, at: str) -> tuple[list[dict[str, Any]], str]:
        """Return what the metrics at an address say of each partition, or why they are not shown."""
        headers = signed(self._token, "GET", at, "/metrics")
        try:
            async with session.get(f"{at}/metrics", headers=headers, allow_redirects=False) as answer:
                if answer.status != 200:
                    return [], _not_shown(at, answer.status)
                text = (await whole(answer)).decode()
            return await asyncio.to_thread(partitions_of, text), ""
        except FAILURES as error:
            return (
                [],
                f"the worker at {at} does not show its metrics ({_reason(error)}), so its partitions are left out",
            )


def _pages_of(address: str, ready: Mapping[str, Any]) -> list[str]:
    """Return where metrics are: at a worker's own address, or at the ports of the workers whose common page it is."""
    workers = ready.get("workers")
    if not isinstance(workers, dict):
        return [address]
    parts = urlsplit(address)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    ports = [urlsplit(str(each.get("page"))).port for each in workers.values() if isinstance(each, dict)]
    return [f"{parts.scheme}://{host}:{port}" for port in ports if port]


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {PAGE_SECONDS:g} s"
    if isinstance(error, aiohttp.ClientConnectorError):
        return system_reason(error.os_error) or "no connection"
    return str(error) or type(error).__name__


def _not_shown(address: str, status: int) -> str:
    if status == 401:
        return (
            f"the worker at {address} wants its token: start this page with worker.web_token of the deployment, on a "
            f"machine whose clock differs by at most {VALID_SECONDS:.0f} s, and give the worker's own port"
        )
    return f"{address} answers with HTTP status {status}: is it a worker of this release?"


def partitions_of(text: str) -> list[dict[str, Any]]:
    """Return what a worker's metrics say of each partition."""
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if (name := SHOWN.get(sample.name)) is not None:
                place = f"{sample.labels.get('topic')}[{sample.labels.get('partition')}]"
                found[place][name] = sample.value
    return [{"partition": name, **values} for name, values in sorted(found.items())]
