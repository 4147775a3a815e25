"""A broker from the official jars on the local Java, fetched once with Maven into the user's cache."""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.brokers.errors import NoBrokerError
from tests.brokers.topics import answers

VERSION = os.environ.get("KAFKA_VERSION", "4.3.0")
"""3.9, and everything since."""

PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>resonance</groupId><artifactId>test-broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
TOOLS = f"kafka-tools-{VERSION}.jar"
"""Kafka's command line programs, without what only Kafka Connect needs of theirs."""

QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
"""Java starts sooner with these, and leaves more of the processor to others; what runs for long is slower."""
options: list[str] = []
"""What a broker is started with."""

FETCH_SECONDS = 600
START_SECONDS = 60


@dataclass
class Jvm:
    """A started broker process and its folder."""

    bootstrap: str
    process: subprocess.Popen[bytes]
    folder: Path
    client: dict[str, str]

    def kill(self):
        """End it as a power failure does; its data stay."""
        self.process.kill()
        self.process.wait()

    def launch(self):
        """Let it begin again where it was killed."""
        self.process = _launch(self.folder)
        _wait(self)

    def stop(self):
        """End it with its data: nothing is left to be written down in order."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


Layout = Callable[[Path], tuple[dict[str, str], dict[str, str]]]
"""Makes what a broker needs in its folder; returns its configuration, and that of a client that may ask it."""


def plain(folder, port=0):
    """Layout of a broker that anybody may use."""
    port, controller = port or free_port(), free_port()
    return properties(port, controller, str(folder / "data")), {"bootstrap.servers": f"127.0.0.1:{port}"}


def start(port=0, layout=plain):
    """Start a broker on the loopback interface, on a free port if none is given; seconds once the jars are there."""
    if port:
        layout = partial(layout, port=port)
    if shutil.which("java") is None:
        raise NoBrokerError("local Java: there is no java on PATH (17 or newer)")
    for _ in range(3):
        folder = Path(tempfile.mkdtemp(prefix="resonance-kafka-"))
        try:
            return _start(folder, layout)
        except _PortTakenError:
            shutil.rmtree(folder, ignore_errors=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    raise NoBrokerError("local Java: every free port was taken before the broker had it, three times in a row")


class _PortTakenError(Exception):
    """Another program took the port between its choice and its use."""


def _start(folder, layout):
    settings, client = layout(folder)
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    tool = "kafka.tools.StorageTool"
    made = java(tool, "format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(file), timeout=60)
    if made.returncode:
        raise NoBrokerError(f"local Java: cannot format the broker's folder: {made.stderr.strip()[-600:]}")
    started = Jvm(client["bootstrap.servers"], _launch(folder), folder, client)
    _wait(started)
    return started


def _launch(folder):
    with (folder / "server.log").open("ab") as output:
        return subprocess.Popen(
            [
                "java",
                *options,
                "-Xms256m",
                "-Xmx512m",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp",
                str(jars() / "*"),
                "kafka.Kafka",
                str(folder / "server.properties"),
            ],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the tests first, and they end the broker
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - one system call, before any of our threads matter
        )


def _wait(started):
    end = time.monotonic() + START_SECONDS
    while started.process.poll() is None and time.monotonic() < end:
        if answers(started.bootstrap, timeout=0.5, **started.client):
            return
    text = (started.folder / "server.log").read_text(errors="replace")
    started.stop()
    if "Address already in use" in text:
        raise _PortTakenError
    raise NoBrokerError(f"local Java: Kafka {VERSION} does not answer; the end of its log: {text.strip()[-1500:]}")


def java(program, *arguments, timeout):
    """Run one of Kafka's own programs to its end."""
    command = ["java", *QUICK, "-cp", str(jars() / "*"), program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def properties(port, controller, data, host="127.0.0.1"):
    """Configuration of one node in both roles, for tests: quick elections, no topic made by accident."""
    one = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": data,
        "group.initial.rebalance.delay.ms": "0",
        # A killed worker's partitions go to others after its session: 6 s at least by default.
        "group.min.session.timeout.ms": "2000",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.num.partitions": "8",
        # A transaction whose owner is gone blocks every read_committed reader until the broker ends it.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        # Compaction within a test's time.
        "log.cleaner.backoff.ms": "500",
    }
    settings |= {f"{name}.replication.factor": "1" for name in one}
    settings |= {f"{name}.min.isr": "1" for name in one[1:]}
    return settings


def free_port():
    """A port of the loopback interface that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cache_folder():
    """Where the jars of this version lie."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "resonance" / "kafka" / VERSION


def jars(folder=None):
    """Folder with the jars, fetched when it is not there or not whole.

    A fetch goes to a folder of its own and is moved into place when it is complete, so runs beside each other and
    runs that were stopped in the middle leave nothing half done behind; what has been damaged since is fetched again.
    """
    target = folder or cache_folder()
    if _whole(target):
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise NoBrokerError("local Java: Kafka's jars are not in the cache and there is no mvn on PATH to fetch them")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fetched = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise NoBrokerError(f"local Java: the cache folder cannot be written: {error}") from error
    try:
        _fetch(maven, fetched)
        if not _whole(target):
            shutil.rmtree(target, ignore_errors=True)
            # Who comes second finds a whole folder and keeps that one.
            try:
                fetched.rename(target)
            except OSError:
                if not _whole(target):
                    raise
        return target
    finally:
        shutil.rmtree(fetched, ignore_errors=True)


def _fetch(maven, folder):
    (folder / "pom.xml").write_text(PROJECT.format(version=VERSION))
    command = [maven, "-q", "-B", "-C", "-Dstyle.color=never", "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoBrokerError(f"local Java: Maven did not fetch Kafka {VERSION} within {FETCH_SECONDS} s") from error
    if done.returncode:
        reason = (done.stdout + done.stderr).strip()[-600:]
        raise NoBrokerError(f"local Java: Maven cannot fetch Kafka {VERSION}: {reason}")
    sizes = {file.name: file.stat().st_size for file in sorted(folder.glob("*.jar"))}
    (folder / "content.json").write_text(json.dumps(sizes))


def _whole(folder):
    """Whether every jar that was fetched is there in its full length."""
    try:
        sizes = json.loads((folder / "content.json").read_text())
        return TOOLS in sizes and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def die_with_parent():
    """Return what a child runs first so that the kernel ends it when the tests are killed; nothing outside Linux."""
    if sys.platform != "linux":
        return None
    prctl, set_parent_death_signal = ctypes.CDLL(None).prctl, 1

    def ask():
        prctl(set_parent_death_signal, signal.SIGTERM)

    return ask
