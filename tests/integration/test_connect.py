"""A real Kafka Connect keeps the clusters as a table of PostgreSQL, with the files of docker/connect."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.brokers import create_topic, jvm, produce
from tests.pipeline.page import outputs

FILES = Path(__file__).resolve().parents[2] / "docker" / "connect"
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
LOADED = ("jackson-", "jetty-", "jersey-", "kafka-", "connect-", "slf4j-")
"""Jars that Kafka Connect itself has: the connector's own copies would not fit it."""
PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>resonance</groupId><artifactId>test-connect</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""
PARTS = {
    "kafka": ("org.apache.kafka", "connect-runtime", jvm.VERSION, ()),
    "plugins/jdbc": ("io.debezium", "debezium-connector-jdbc", "3.5.0.Final", LOADED),
}

pytestmark = [
    pytest.mark.broker,
    pytest.mark.nightly,
    pytest.mark.skipif(POSTGRES is None, reason="no PostgreSQL (Debian: apt-get install postgresql)"),
    pytest.mark.skipif(not (shutil.which("mvn") and shutil.which("java")), reason="no Java 17 with Maven"),
]


@pytest.fixture(scope="module")
def jars(tmp_path_factory):
    """Kafka Connect, and the connector beside it, from Maven's own cache."""
    folder = tmp_path_factory.mktemp("connect")
    for part, (group, name, version, without) in PARTS.items():
        target = folder / part
        target.mkdir(parents=True)
        (target / "pom.xml").write_text(PROJECT.format(group=group, name=name, version=version))
        command = ["mvn", "-q", "-B", "-C", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*command, f"-DoutputDirectory={target}"], cwd=target, check=True, timeout=600)
        for jar in target.glob("*.jar"):
            if without and jar.name.startswith(without):
                jar.unlink()
    return folder


class Database:
    """A PostgreSQL of its own, on a port of the loopback interface."""

    def __init__(self, folder):
        self.folder, self.port = folder, jvm.free_port()

    def run(self, program, *arguments, check=True):
        # PostgreSQL does not run as root.
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*user, str(POSTGRES / program), *arguments]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=check)

    def client(self, program, *arguments, check=True):
        place = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "resonance")
        return self.run(program, *place, *arguments, check=check).stdout

    @contextmanager
    def running(self):
        data = str(self.folder / "data")
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self.run("initdb", "-D", data, "-A", "trust", "-U", "resonance")
        options = f"-p {self.port} -h 127.0.0.1 -k ''"
        self.run("pg_ctl", "-D", data, "-o", options, "-l", f"{data}.log", "-w", "start")
        try:
            self.client("createdb", "resonance")
            yield
        finally:
            self.run("pg_ctl", "-D", data, "-m", "immediate", "stop")

    def rows(self):
        wanted = "select cluster, stream, size, ended from clusters order by cluster"
        return self.client("psql", "resonance", "-At", "-c", wanted, check=False).split()

    def wait(self, rows):
        end = time.monotonic() + 120
        while self.rows() != rows:
            assert time.monotonic() < end, self.rows()
            time.sleep(0.5)


@contextmanager
def connect(folder, jars, changed):
    """Kafka Connect with the files that are documented, but for the addresses."""
    for file in ("worker.properties", "clusters.properties"):
        text = (FILES / file).read_text()
        for before, after in changed.items():
            text = text.replace(before, after)
        (folder / file).write_text(text)
    arguments = ["org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties", "clusters.properties"]
    with (folder / "connect.log").open("w") as log:
        command = ["java", "-Xmx400m", "-cp", str(jars / "kafka" / "*"), *arguments]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, preexec_fn=jvm.die_with_parent())  # noqa: PLW1509
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_the_clusters_are_rows_that_change_and_go_with_their_messages(broker, jars, tmp_path_factory):
    topic = create_topic(broker, "demo.clusters", partitions=2, cleanup_policy="compact")
    first = [outputs.cluster("p0/1/0", 10), outputs.cluster("p0/1/1", 20, ended="absorbed", successors=["p0/1/0"])]
    produce(broker, topic, [(0, *each) for each in first])
    with ExitStack() as stack:
        # Not among pytest's folders, into which the database's own user may not look.
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resonance-postgres-")))
        base.chmod(0o755)
        database = Database(base)
        stack.enter_context(database.running())
        changed = {
            "localhost:9092": broker,
            "=demo.clusters": f"={topic}",
            "postgres:5432": f"127.0.0.1:{database.port}",
            "127.0.0.1:8083": f"127.0.0.1:{jvm.free_port()}",
            "plugin.path=plugins": f"plugin.path={jars / 'plugins'}",
        }
        stack.enter_context(connect(tmp_path_factory.mktemp("run"), jars, changed))
        database.wait(["p0/1/0|p0|10|", "p0/1/1|p0|20|absorbed"])
        produce(broker, topic, [(0, *outputs.cluster("p0/1/0", 99, 7)), (0, b"p0/1/1", None)])
        database.wait(["p0/1/0|p0|99|"])
