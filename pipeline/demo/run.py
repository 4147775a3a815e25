"""Run the demo from the first record to the verdict."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from resonance.pipeline.config.file import as_toml
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.config.sources import PREFIX
from resonance.pipeline.demo import report
from resonance.pipeline.demo.story import Story
from resonance.pipeline.demo.telemetry import FEATURES, RECORDS, REGIONS, Telemetry
from resonance.pipeline.demo.view import LiveView, PlainView
from resonance.pipeline.errors import BrokerError, ResonanceError
from resonance.pipeline.kafka.embedded import PARTITIONS, EmbeddedBroker
from resonance.pipeline.records import Message
from resonance.pipeline.watch.outputs import DeploymentOutputs
from resonance.pipeline.watch.picture import draw
from resonance.schemas.interrupts import interruptible
from rich.console import Console

STOP_SECONDS = 15.0
"""Time after SIGTERM within which a process must end; then it is killed."""


class WorkerFailedError(ResonanceError):
    """The demo's worker ended by itself."""


class WorkerProcess:
    """Runs a command with a settings file, and writes its output to a log file."""

    def __init__(self, config: Path, log: Path, *command: str) -> None:
        self._arguments = [sys.executable, "-m", "resonance.pipeline.cli.main", *command, "--config", str(config)]
        self._command = command[0]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Id of the process; 0 before the first start."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the command, the first time with an empty log."""
        # The settings file is complete: settings in the user's environment are meant for other workers.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        with self._log.open("wb" if self._process is None else "ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                # Ctrl-C must reach the demo alone, which then stops its worker in order.
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise `WorkerFailedError` if the process has ended."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            last = ["it wrote nothing", *self._log.read_text(errors="replace").splitlines()][-1]
            raise WorkerFailedError(f"the {self._command} ended with exit code {code}: {last} (its log: {self._log})")

    def kill(self) -> None:
        """Kill the process with SIGKILL: it flushes nothing and does not leave its group."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the process, in order if it ends in time."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        except BaseException:
            self.kill()  # a second Ctrl-C
            raise


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


TOPIC = "telemetry"
"""Name of the input topic."""

READY_SECONDS = 240.0
"""Longest wait for the worker's first answer; the first time on a machine it compiles its kernels."""

STALL_SECONDS = 60.0
"""Longest time without an answer while records wait."""

SENT_SECONDS = 72.0
"""Time from the start in which everything is to be sent; a worker that compiles first leaves less of it."""

MIN_SECONDS = 20.0
"""Shortest time for the telemetry, however long the start took."""

SLOW_SECONDS = 8.0
"""Longest start without anything to compile; a longer one is explained in the log."""

PAUSE_SECONDS = 1.5
"""Time for which the killed worker stays dead, so that it can be seen."""

KILL_AT = 0.48
"""Share of the records after which the worker is killed."""

BURST = 2000
"""Records sent at once before the kill, so that it comes while the worker is busy."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

DIFFERENT = 1
"""Exit code when the outputs differ from those of the replay."""

FILES = {
    "assignments": ("assignments.jsonl", "an answer for each record"),
    "cluster_events": ("events.jsonl", "the life of the clusters"),
    "drift_events": ("drift.jsonl", "changes of the data themselves"),
    "alerts": ("alerts.jsonl", "what needed a look"),
}
"""Kinds of outputs, with the file of each and what is in it."""

PICTURE = ("lifelines.png", "the same as a picture")
"""The file with the clusters' lives, and what is in it."""

OPTIONAL = {"matplotlib": PICTURE[0], "sklearn": "the adjusted Rand index (ARI)"}
"""Modules of the extra ``demo``, with what each adds."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo runs."""

    folder: Path = field(default_factory=lambda: Path("demo-results"))
    """Folder for results, settings and the worker's log."""
    seconds: float = 42.0
    """Time in which all records are sent; less when the worker had to compile its kernels first."""
    records: int = RECORDS
    """Records of each region."""
    keep: bool = False
    """Whether the page stays open after the verdict, until Ctrl-C."""


def run(options: Options, console: Console | None = None) -> int:
    """Run the demo and return the exit code of the process; `console` is standard output by default."""
    console = console or Console()
    with interruptible(requests=True):
        try:
            return _Demo(options, console).run()
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted: worker and broker are stopped", style="yellow")
            return INTERRUPTED


class _Demo:
    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._telemetry = Telemetry(options.records)
        self._story = Story(self._telemetry)
        self._view = (
            LiveView(self._story, console)
            if console.is_terminal
            else PlainView(self._story, Console(stderr=True, soft_wrap=True))
        )
        # Outputs of each kind, by partition.
        self._written: dict[str, list[list[Message]]] = {kind: [[] for _ in REGIONS] for kind in FILES}
        self._killed_at: list[int] = []
        self._seconds = options.seconds
        self._explained = False

    def run(self) -> int:
        folder = self._options.folder
        folder.mkdir(parents=True, exist_ok=True)
        settings = _settings("127.0.0.1:9092")
        topics = [settings.topic(kind) for kind in (*FILES, "dead_letters", "snapshots")]
        with ExitStack() as stack:
            broker = stack.enter_context(EmbeddedBroker([TOPIC, *topics]))
            settings = _settings(broker.bootstrap)
            config = folder / "resonance.toml"
            config.write_text(as_toml(_values(broker.bootstrap)))
            follower = stack.enter_context(follow(settings))
            address = f"http://127.0.0.1:{(port := free_port())}"
            page = WorkerProcess(config, folder / "page.log", "page", "--port", str(port))
            stack.callback(page.stop)
            page.start()
            with ExitStack() as play:
                worker = WorkerProcess(config, folder / "worker.log", "worker")
                play.callback(worker.stop)
                play.enter_context(self._view)
                self._story.say("note", f"live as a web page meanwhile: {address}")
                self._play(broker, follower, worker)
                text = "all records are answered; stopping the worker, replaying the log without a break"
                self._story.say("note", text)
                self._story.worker = "stopping"
                self._view.update()
            code = self._judge(settings, follower)
            if self._options.keep:
                self._console.print(f"  {address}  [dim]the page, until Ctrl-C[/]", highlight=False, soft_wrap=True)
                while True:
                    page.check()
                    time.sleep(1.0)
        return code

    # The play

    def _play(self, broker: EmbeddedBroker, follower: DeploymentOutputs, worker: WorkerProcess) -> None:
        """Send, follow, kill and restart, until every record is answered."""
        story = self._story
        total = len(self._telemetry)
        self._start(worker, "started")
        samples = iter(self._telemetry)
        # One record of each region shows that everything is connected before the clock starts.
        self._send(broker, samples, len(REGIONS))
        kill = round(total * KILL_AT)
        began: float | None = None
        dead_since: float | None = None
        last_answer = time.monotonic()
        while sum(story.answered) < total:
            now = time.monotonic()
            if began is not None:
                due = min(total, len(REGIONS) + int((total - len(REGIONS)) * (now - began) / self._seconds))
                self._send(broker, samples, max(due - sum(story.delivered), 0))
            answered = sum(story.answered)
            self._receive(follower)
            if sum(story.answered) > answered:
                last_answer = time.monotonic()
                if began is None:
                    began = last_answer
                if dead_since is None and not story.worker.startswith("running"):
                    self._connected(worker)
            if dead_since is not None and now - dead_since >= PAUSE_SECONDS:
                self._start(worker, "started again")
                dead_since = None
            elif dead_since is None:
                worker.check()
                if not self._killed_at and sum(story.delivered) >= kill and began is not None:
                    burst = min(BURST, total - sum(story.delivered))
                    self._send(broker, samples, burst)
                    self._kill(worker, follower)
                    began -= burst / self._rate()  # sending continues from here at its pace
                    dead_since = time.monotonic()
            self._check_stall(now - last_answer, began is None)
            story.tick()
            self._view.update()
        story.tick()

    def _send(self, broker: EmbeddedBroker, samples: Iterator[Any], count: int) -> None:
        for _ in range(count):
            sample = next(samples)
            broker.append(TOPIC, sample.partition, sample.value, sample.key)
            self._story.sent(sample.partition)
        if count > 0:
            broker.flush()

    def _receive(self, follower: DeploymentOutputs, wait: float = 0.03) -> None:
        """Take over what has arrived."""
        story = self._story
        notes = {
            "assignments": story.assignment,
            "cluster-events": story.event,
            "drift-events": story.drift,
            "alerts": story.alert,
        }
        for output in follower.poll(wait):
            message = Message(output.key, output.value, list(output.headers))
            self._written[output.kind.replace("-", "_")][output.partition].append(message)
            notes[output.kind](output.partition, output.value or b"")
        check_complete(follower, sum(len(part) for written in self._written.values() for part in written))

    def _start(self, worker: WorkerProcess, how: str) -> None:
        worker.start()
        self._story.worker = f"{how}, pid {worker.pid}: it loads and joins its group"
        self._story.say("note", f"worker {how} as process {worker.pid}")

    def _connected(self, worker: WorkerProcess) -> None:
        story = self._story
        story.worker = f"running, pid {worker.pid}"
        if self._killed_at:
            story.say(
                "note", f"worker {worker.pid} has restored its models and goes on; {story.waiting:,} records wait"
            )
        else:
            self._seconds = min(self._seconds, max(MIN_SECONDS, SENT_SECONDS - story.seconds))
            story.say("note", f"worker {worker.pid} answers; sending {self._rate():,.0f} records a second")

    def _kill(self, worker: WorkerProcess, follower: DeploymentOutputs) -> None:
        """Kill the worker between the first answers to a burst and the commit that would close it."""
        story = self._story
        known, until = sum(story.answered), time.monotonic() + 1
        while sum(story.answered) == known and time.monotonic() < until:
            self._receive(follower, 0.002)
        worker.kill()
        self._killed_at = list(story.answered)
        story.worker = f"KILLED: process {worker.pid} is gone"
        story.say("worker", f"worker {worker.pid} killed with SIGKILL, in the middle of its work; records keep coming")

    def _rate(self) -> float:
        return len(self._telemetry) / self._seconds

    def _check_stall(self, seconds: float, starting: bool) -> None:
        if starting and seconds > SLOW_SECONDS and not self._explained:
            self._explained = True
            self._story.say("note", "the worker compiles its kernels, once on a machine: half a minute")
        limit = READY_SECONDS if starting else STALL_SECONDS
        if seconds > limit:
            raise BrokerError(
                f"the worker has answered nothing for {limit:.0f} s while {self._story.waiting:,} records wait; "
                f"its log is {self._options.folder / 'worker.log'}"
            )

    # The verdict

    def _judge(self, settings: Settings, follower: DeploymentOutputs) -> int:
        options, story, console = self._options, self._story, self._console
        expected = report.replay(settings, self._telemetry)
        compared = {
            kind.replace("_", " "): report.compare([getattr(part, kind) for part in expected], written)
            for kind, written in self._written.items()
        }
        report.write_results(options.folder, {FILES[kind][0]: written for kind, written in self._written.items()})
        lacking = [module for module in OPTIONAL if find_spec(module) is None]
        files = [*FILES.values()]
        if "matplotlib" not in lacking:
            files.append(PICTURE)
            lives = report.lives_of(story, self._written["assignments"], self._killed_at)
            draw(options.folder / PICTURE[0], lives)
        figures = (compared, follower.repeats, report.quality(story, rated="sklearn" not in lacking), story.seconds)
        incidents = story.happened.incidents()
        (options.folder / "report.json").write_bytes(report.as_json(*figures, incidents))
        console.print()
        console.print(report.incident_table(incidents))
        console.print(report.outcome_table(story))
        console.print(report.verdict(*figures))
        for name, what in files:
            console.print(f"  {options.folder / name}  [dim]{what}[/]", highlight=False, soft_wrap=True)
        for module in lacking:
            text = f"  {OPTIONAL[module]} needs more packages: pip install 'resonance-streams[demo]'"
            console.print(text, highlight=False, soft_wrap=True, markup=False)
        return 0 if all(each.exact for each in compared.values()) else DIFFERENT


def follow(settings: Settings) -> DeploymentOutputs:
    """Return a reader of all partitions of the outputs, from their beginning."""
    starts = dict.fromkeys(product(map(settings.topic, FILES), range(PARTITIONS)), 0)
    return DeploymentOutputs(settings, starts, loads=None)


def check_complete(follower: DeploymentOutputs, received: int) -> None:
    """Raise `BrokerError` where outputs were dropped before they were read: its offsets have no gaps."""
    missing = sum(follower.positions.values()) - follower.repeats - received
    if missing > 0:
        raise BrokerError(
            f"the embedded broker dropped {missing} outputs before they were read; send fewer records, or use Kafka"
        )


def _values(bootstrap: str) -> dict[str, Any]:
    """Return the settings of the demo's worker: defaults, except for what embedded broker and telemetry need."""
    return {
        "name": "demo",
        "stream": "partition",
        "broker": {"bootstrap": bootstrap, "session_timeout": 6},
        "worker": {"web_port": free_port()},
        "input": {"topics": [TOPIC], "features": list(FEATURES), "id_path": "id", "time_path": "time"},
        # Features with a tail would be bent, which draws durations together and hides a deploy that makes some longer.
        "prepare": {"robust": False},
        "delivery": {"mode": "at_least_once"},
        "snapshots": {"records": 1000},
    }


def _settings(bootstrap: str) -> Settings:
    return Settings.of(_values(bootstrap))
