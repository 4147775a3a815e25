"""The waits of a worker, of its Kafka clients and of what runs it fit together."""

import importlib
import re

import pytest
import yaml
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.page import operations

from tests.pipeline.worker import waits
from tests.test_house import ROOT

SOURCES = [*(ROOT / "pipeline" / "worker").rglob("*.py"), ROOT / "pipeline" / "kafka" / "producer.py"]
PIPELINE = ROOT / "pipeline"
MODULES = (*SOURCES, *(PIPELINE / place for place in ("logs.py", "checkpoint/deployment_context.py")))
DOCKER = ROOT / "docker"


def seconds(text, settings=None):
    """What a time of the table is in seconds."""
    modules = {path.stem: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
    modules["registry"] = "pipeline.registry.client"
    named = {
        name: importlib.import_module(f"resonance.{modules[name]}")
        for name in modules.keys() & re.findall(r"\w+", text)
    }
    named["waits"] = waits
    return float(eval(text, named | dict(settings or ()) | {"settings": settings}))  # noqa: S307 - a table of ours


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"broker.session_timeout": 1.0, "delivery.transaction_timeout": 1.0},
        {"broker.session_timeout": 1800.0, "delivery.transaction_timeout": 900.0, "delivery.commit_interval": 60.0},
    ],
)
def test_what_must_be_longer_is_longer(changed):
    settings = Settings.of({"input.topics": ["in"], **changed})
    assert [rule for rule in waits.LONGER if seconds(rule[0], settings) <= seconds(rule[1], settings)] == []


def test_what_runs_a_worker_waits_longer_than_its_end_and_its_pages_take():
    pod = next(
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all((DOCKER / "kubernetes" / "resonance.yaml").read_text())
        if each["kind"] == "StatefulSet"
    )
    assert pod["terminationGracePeriodSeconds"] > seconds(waits.STOPPED)
    probes = [pod["containers"][0][f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
    assert all(probe["timeoutSeconds"] > seconds(waits.PROBE) for probe in probes)
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    graces = [float(each["stop_grace_period"].removesuffix("s")) for each in services if "stop_grace_period" in each]
    assert graces
    assert min(graces) > seconds(waits.STOPPED)
    health = re.search(r"HEALTHCHECK .*--timeout=(\d+)s .*timeout=(\d+)\)", (DOCKER / "Dockerfile").read_text())
    assert float(health[1]) > float(health[2]) > seconds(waits.PROBE)
    prometheus = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["global"]
    assert float(prometheus["scrape_interval"].removesuffix("s")) > seconds(waits.PROBE)
    assert seconds(waits.PROBE) < operations.PAGE_SECONDS
