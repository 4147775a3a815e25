"""Builds the image and runs it beside a broker, as the compose file does: ``python -m tests.image``.

It needs podman, buildah, runc and debootstrap (Debian's packages), Java with Maven for the broker's jars, and root.
Where the base image cannot be pulled, a Debian of the same release with its own Python takes its place. All containers
share the network of the broker's, which has nothing but a loopback interface. All run as an ordinary user without
capabilities, and with read-only root file systems.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.brokers.jvm import jars

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
SERVICES = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
PREFIX = "resonance-image-test"
BASE = next(line.split()[1] for line in (DOCKER / "Dockerfile").read_text().splitlines() if line.startswith("FROM "))
KAFKA = "localhost/resonance-test-kafka"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates,openjdk-17-jre-headless"
OF_THIS_MACHINE = ("/etc/pip.conf", "/etc/ssl/certs")
"""How this machine reaches the package index, where it has a way of its own."""
PORTS = {"worker-1": 6066, "worker-2": 6067}
READY_SECONDS = 300.0
RECORDS = 2_400


def podman(*arguments, check=True, **options):
    """Run podman, which is asked for little: runc works with every kind of cgroups."""
    return subprocess.run(["podman", "--runtime", "runc", *arguments], check=check, text=True, **options)


def exists(image):
    return podman("image", "exists", image, check=False).returncode == 0


def base_image():
    """Make the base image of the Dockerfile available."""
    if exists(BASE) or podman("pull", BASE, check=False).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        release = BASE.rpartition("-")[2]
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, str(root)], check=True)
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        (root / "usr/bin/python").symlink_to("python3")
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
            podman("import", "-", f"localhost/{BASE}", stdin=packed.stdout)


def build():
    """Build the image of the Dockerfile, and one of the broker with the jars of the tests."""
    volumes = [f"--volume={path}:{path}:ro" for path in OF_THIS_MACHINE if Path(path).exists()]
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    common = ["build", "--isolation", "chroot", "--network", "host", "--pull=never", "--format", "docker"]
    podman(
        *(*common, *volumes, "--build-arg", f"TARGETARCH={machine}", "--file", str(DOCKER / "Dockerfile")),
        *("--tag", SERVICES["worker-1"]["image"], str(ROOT)),
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Dockerfile").write_text(f"FROM {BASE}\nCOPY . /opt/kafka/libs\nUSER 10001:10001\n")
        for jar in jars().glob("*.jar"):
            (Path(folder) / jar.name).hardlink_to(jar)
        podman(*common, "--tag", KAFKA, folder)


def run(name, image, *command, environment=None, detach=False, options=()):
    """Run a container of the deployment as an ordinary user who can write nothing but what is mounted."""
    limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]
    rights = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--user=10001:10001"]
    given = [f"--env={key}={value}" for key, value in (environment or {}).items()]
    how = ["--replace", "--no-healthcheck", "--detach" if detach else "--rm"]
    network = (
        ["--network=none", "--add-host=kafka:127.0.0.1"] if name == "kafka" else [f"--network=container:{PREFIX}-kafka"]
    )
    return podman(
        *("run", *network, "--name", f"{PREFIX}-{name}", *how, *limits, *rights, *given, *options, image, *command),
        capture_output=True,
    )


def start_broker():
    """Start the broker with the settings of the compose file, in folders that are in memory."""
    given = SERVICES["kafka"]["environment"]
    properties = {
        name.removeprefix("KAFKA_").replace("_", ".").lower(): value
        for name, value in given.items()
        if name.startswith("KAFKA_")
    }
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    java = "java -Xmx512m -cp '/opt/kafka/libs/*'"
    script = (
        f"printf '%s' \"$PROPERTIES\" > /tmp/server.properties && "
        f"{java} kafka.tools.StorageTool format -t {given['CLUSTER_ID']} -c /tmp/server.properties && "
        f"exec {java} kafka.Kafka /tmp/server.properties"
    )
    memory = ("--tmpfs=/tmp:mode=1777", f"--tmpfs={properties['log.dirs']}:mode=1777")
    run("kafka", KAFKA, "sh", "-c", script, environment={"PROPERTIES": text}, detach=True, options=memory)


def service(name, *command, environment=None, **options):
    """Run a service of the compose file."""
    found = SERVICES[name]
    mounts = [f"--volume={DOCKER}/{each.removeprefix('./')}" for each in found["volumes"] if each.startswith("./")]
    mounts.append(f"--volume={DOCKER}/records.csv:/data/records.csv:ro")
    given = {**found["environment"], **BROKER, **(environment or {})}
    arguments = command or found.get("command", ())
    return run(name, found["image"], *arguments, environment=given, options=mounts, **options)


def start_worker(name):
    service(name, environment={"RESONANCE_WORKER__WEB_PORT": PORTS[name]}, detach=True)


def wait(what, check):
    """Wait until a check succeeds."""
    end = time.monotonic() + READY_SECONDS
    while not check():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {READY_SECONDS:g} s")
        time.sleep(1.0)


def is_ready(name):
    code = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{PORTS[name]}/readyz', timeout=4)"
    asked = podman("exec", f"{PREFIX}-{name}", "python", "-c", code, check=False, capture_output=True)
    return asked.returncode == 0


def verified():
    """Return how many records the deployment has answered, each of them as a replay does."""
    found = run("verify", SERVICES["worker-1"]["image"], *VERIFY, options=SETTINGS, environment=BROKER)
    return sum(part["records"] for part in json.loads(found.stdout)["partitions"])


VERIFY = ("verify", "--json")
BROKER = {"RESONANCE_BROKER__BOOTSTRAP": "127.0.0.1:9092"}
"""The listener that needs no name: a network without a resolver has none."""
SETTINGS = (f"--volume={DOCKER}/resonance.toml:/etc/resonance/resonance.toml:ro",)


def try_services():
    """Run the services, kill a worker among them, and verify every answer."""
    start_broker()
    wait("the topics", topics_made)
    for name in PORTS:
        start_worker(name)
    for name in PORTS:
        wait(f"{name} is ready", lambda name=name: is_ready(name))
    service("producer")
    podman("kill", "--signal", "KILL", f"{PREFIX}-worker-1")
    podman("rm", "--force", f"{PREFIX}-worker-1")
    service("producer")
    start_worker("worker-1")
    wait("every record is answered and verified", lambda: verified() == 2 * RECORDS)
    whoami = podman("exec", f"{PREFIX}-worker-1", "id", "-u", capture_output=True).stdout.strip()
    assert whoami == "10001", whoami


def topics_made():
    try:
        service("topics")
    except subprocess.CalledProcessError:
        return False
    return True


def main():
    """Build, run, and leave nothing behind but the images."""
    base_image()
    build()
    try:
        try_services()
    except BaseException:
        for name in ("kafka", *PORTS):
            podman("logs", "--tail", "20", f"{PREFIX}-{name}", check=False)
        raise
    finally:
        for name in (*PORTS, "kafka"):
            podman("rm", "--force", f"{PREFIX}-{name}", check=False)
    sys.stdout.write(
        "the image was built, ran beside a broker, lost a worker, and answered every record as a replay does\n"
    )


if __name__ == "__main__":
    sys.exit(main())
