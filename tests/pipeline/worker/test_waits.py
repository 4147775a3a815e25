"""The waits of a worker, of its Kafka clients and of what runs it fit together."""

import ast
import re
from pathlib import Path

import pytest
import yaml
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.page import operations
from resonance.pipeline.worker import waits

from tests.test_house import ROOT

TIMES = re.compile(r"(SECONDS|TIMEOUT|MARGIN|PAUSE|_MS|_AGE|INTERVAL|JOINING|HINT|AFTER_ERROR|\bLOOK)$")
SOURCES = [*(ROOT / "pipeline" / "worker").rglob("*.py"), ROOT / "pipeline" / "kafka" / "producer.py"]
DOCKER = ROOT / "docker"


def times(path: Path) -> list[str]:
    """The times that a module defines, with its name."""
    made = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.Assign | ast.AnnAssign)]
    names = [target for each in made for target in (each.targets if isinstance(each, ast.Assign) else [each.target])]
    return [f"{path.stem}.{each.id}" for each in names if isinstance(each, ast.Name) and TIMES.search(each.id)]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"broker.session_timeout": 1.0, "delivery.transaction_timeout": 1.0},
        {"broker.session_timeout": 1800.0, "delivery.transaction_timeout": 900.0, "delivery.commit_interval": 60.0},
    ],
)
def test_what_must_be_longer_is_longer(changed):
    found = list(waits.rules(Settings.of({"input.topics": ["in"], **changed})))
    wrong = [
        f"{r.longer} ({r.seconds:g} s) <= {r.shorter} ({r.than:g} s): {r.why}" for r in found if r.seconds <= r.than
    ]
    assert wrong == []


def test_every_time_of_the_worker_has_its_place():
    table = (ROOT / "pipeline" / "worker" / "waits.py").read_text()
    found = {name for path in SOURCES if path.stem != "waits" for name in times(path)}
    assert len(found) > 30
    missing = sorted(name for name in found if not re.search(rf"\b{re.escape(name)}\b", table))
    assert missing == [], "add a rule to pipeline/worker/waits.py, or say in UNRELATED why there is none"
    unrelated = {name for names in waits.UNRELATED.values() for name in names}
    assert unrelated <= found, "they are gone"


def test_what_runs_a_worker_waits_longer_than_its_end_and_its_pages_take():
    pod = next(
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all((DOCKER / "kubernetes" / "resonance.yaml").read_text())
        if each["kind"] == "StatefulSet"
    )
    assert pod["terminationGracePeriodSeconds"] > waits.STOPPED_SECONDS
    probes = [pod["containers"][0][f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
    assert all(probe["timeoutSeconds"] > waits.PROBE_SECONDS for probe in probes)
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    graces = [float(each["stop_grace_period"].removesuffix("s")) for each in services if "stop_grace_period" in each]
    assert graces
    assert min(graces) > waits.STOPPED_SECONDS
    health = re.search(r"HEALTHCHECK .*--timeout=(\d+)s .*timeout=(\d+)\)", (DOCKER / "Dockerfile").read_text())
    assert float(health[1]) > float(health[2]) > waits.PROBE_SECONDS
    prometheus = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["global"]
    assert float(prometheus["scrape_interval"].removesuffix("s")) > waits.PROBE_SECONDS
    assert operations.PAGE_SECONDS > waits.PROBE_SECONDS
