"""What the web page costs, and how late it is: on a real Kafka, in a headless Chromium, beside 50,000 records a second.

Assignments, clusters and events are written as workers write them (`bench.page_load`). A small deployment, and one with
many streams: in each the time from an event's commit until it is painted, the CPU of the page's server beside that of
a worker for as many records, and its memory.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from resonance.pipeline.page.server import STATIC

from bench.memory import resident
from bench.page_load import PARTITIONS, Change, Writer, make_topics, producer_of
from bench.pipeline import Bench
from bench.processes import cpu_of, running
from bench.report import Row, arguments, show
from tests.brokers import running_broker
from tests.brokers.jvm import free_port
from tests.browser import Tab, tab

EVENTS = 10.0
"""New clusters a second."""
SETTLE_SECONDS = 5.0
LOAD_SECONDS = 300.0
LOOKED = {"no page open": "", "events open": "/events", "stream open": "/stream?name=device-00000"}
LATE, BUILT, SHARE = 1_000.0, 300.0, 0.05
"""The bars: milliseconds, kB, and part of a worker's CPU."""

NOTES = """
(() => {
  window.seen = {};
  new MutationObserver(() => {
    const found = [...document.querySelectorAll('.entry .text a')].map((link) => link.textContent);
    const unseen = found.filter((name) => !(name in window.seen));
    for (const name of unseen) window.seen[name] = 0;
    // A frame that is drawn, and then the end of its painting.
    if (unseen.length) requestAnimationFrame(() => setTimeout(() => {
      for (const name of unseen) window.seen[name] = performance.timeOrigin + performance.now();
    }));
  }).observe(document, { childList: true, subtree: true });
})()
"""
"""Notes in the page when a cluster is first painted in the list of events."""


@contextmanager
def served(bootstrap: str, name: str) -> Iterator[tuple[str, int]]:
    """Run a page, from when it has read what is there; return its address and its process."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = ["resonance.pipeline.cli.main", "page", "--name", name, "--broker", bootstrap, "--topics", "features"]
    with running([*command, "--port", str(port)]) as server:
        end = time.monotonic() + LOAD_SECONDS
        while read(address) < 1:
            assert server.poll() is None, "the page ended"
            assert time.monotonic() < end, f"the page has not read everything after {LOAD_SECONDS:g} s"
            time.sleep(0.05)
        yield address, server.pid


def read(address: str) -> float:
    """Return how much of what is there the page has read, from 0 to 1."""
    try:
        with urllib.request.urlopen(f"{address}/api/overview?most=1", timeout=30) as answer:  # noqa: S310 - loopback
            return float(json.load(answer)["loaded"])
    except OSError:
        return 0.0


class Load:
    """The steady writer in a process of its own, which writes its changes into a file."""

    def __init__(self, process: subprocess.Popen[bytes], file: str) -> None:
        self._process, self._file = process, Path(file)

    def changes(self) -> list[Change]:
        """Return the new clusters so far."""
        assert self._process.poll() is None, "the load ended"
        return [json.loads(line) for line in self._file.read_text().split("\n")[:-1]]

    def written(self) -> int:
        """Return the assignments written so far."""
        found = self.changes()
        return found[-1]["written"] if found else 0


@contextmanager
def loading(*values: object) -> Iterator[Load]:
    """Run the writer meanwhile."""
    with tempfile.NamedTemporaryFile() as lines:
        command = [sys.executable, "-m", "bench.page_load", *map(str, values)]
        with subprocess.Popen(command, stdout=lines) as process:
            try:
                yield Load(process, lines.name)
            finally:
                process.kill()


async def opened(browser: Tab, address: str) -> None:
    """Open a page, and wait until it is live."""
    await browser.open(address)
    await browser.wait("document.querySelector('#main h1') && document.querySelector('#live').textContent === 'live'")


async def in_flow(browser: Tab, address: str, server: int, load: Load, seconds: float, worker: float) -> list[Row]:
    """Return how late events are, and the server's CPU for each record with each of some pages open."""
    shown: list[Row] = []
    for name, path in LOOKED.items():
        await (opened(browser, address + path) if path else browser.open("about:blank"))
        await asyncio.sleep(SETTLE_SECONDS)
        began, cpu, before = time.time(), cpu_of(server), load.written()
        await asyncio.sleep(seconds)
        spent, records, ended = cpu_of(server) - cpu, load.written() - before, time.time()
        assert records, "nothing was written: the machine is too busy to measure"
        what = f"server, {name}, at {records / (ended - began):,.0f} records/s"
        bar = (f"bar, {100 * SHARE:g} % of a worker", SHARE * worker) if worker else ()
        shown.append(Row(what, "us/record", 1e6 * spent / records, *bar))
        if path == "/events":
            await asyncio.sleep(SETTLE_SECONDS)
            seen = await browser.value("window.seen")
            # What was not painted counts as painted only now.
            late = sorted(
                (seen.get(each["cluster"]) or 1000 * time.time()) - 1000 * each["commit"]
                for each in load.changes()
                if began <= each["commit"] <= ended
            )
            what = f"event on the screen after its commit, of {len(late)}"
            shown.append(Row(f"{what}: median", "ms", statistics.median(late)))
            shown.append(Row(f"{what}: p95", "ms", late[len(late) * 95 // 100], "bar", LATE))
    return shown


def worker_cpu(bootstrap: str, streams: int, records: int) -> float:
    """Return the microseconds of CPU that a worker takes for a record of so many streams."""
    bench = Bench(bootstrap)
    with bench.topic("features") as source:
        bench.load(source, records, streams)
        return bench.run("answers", source, records, stream="partition" if streams <= PARTITIONS else "key").cpu


async def measured(bootstrap: str, streams: int, given: argparse.Namespace) -> list[Row]:
    """Return the figures of a deployment with some streams."""
    name = f"page-{streams}"
    worker = worker_cpu(bootstrap, streams, given.records) if given.records else 0.0
    make_topics(bootstrap, name)
    Writer(name, streams, given.clusters, producer_of(bootstrap)).load()
    began = time.monotonic()
    with served(bootstrap, name) as (address, server):
        rows = [Row("server, start until all is read", "s", time.monotonic() - began)]
        rows.append(Row("server", "MB resident", resident(server)))
        async with tab() as browser:
            await browser.look()
            await browser.send("Page.addScriptToEvaluateOnNewDocument", source=NOTES)
            with loading(bootstrap, name, streams, given.clusters, given.rate, EVENTS) as load:
                while not load.written():
                    await asyncio.sleep(0.1)
                rows += await in_flow(browser, address, server, load, given.seconds, worker)
            assert browser.errors == [], browser.errors
        rows.append(Row("server after it", "MB resident", resident(server)))
    return [replace(row, case=f"{streams:,} x {given.clusters}: {row.case}") for row in rows]


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What the web page costs, and how late it is, beside a steady load.")
    parser.add_argument(
        "--streams", type=int, nargs="*", default=[4, 10_000], help="of each deployment: multiples of 4"
    )
    parser.add_argument("--clusters", type=int, default=20, help="present clusters of each stream")
    parser.add_argument("--rate", type=float, default=50_000.0, help="assignments a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="with each page open")
    parser.add_argument("--records", type=int, default=300_000, help="for the worker's CPU; 0 leaves it out")
    given = parser.parse_args()
    rows = [Row("built page", "kB", sum(path.stat().st_size for path in STATIC.iterdir()) / 1e3, "bar", BUILT)]
    with running_broker() as bootstrap:
        for streams in given.streams:
            rows += asyncio.run(measured(bootstrap, streams, given))
    show(f"The web page, load {os.getloadavg()[0]:.1f}", rows, given.json)


if __name__ == "__main__":
    main()
