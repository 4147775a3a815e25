"""The manifests for Kubernetes hold together, are what the chart gives, and start what this release has."""

import shutil
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
import yaml
from resonance.pipeline.cli.main import app
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.memory_budget import LEAST, MIB, PEAK, SHARE

DOCKER = Path(__file__).parents[1] / "docker"
FILE, CHART = DOCKER / "kubernetes" / "resonance.yaml", DOCKER / "helm" / "resonance"
FOUND = list(yaml.safe_load_all(FILE.read_text()))
PODS = {each["metadata"]["name"]: each["spec"]["template"] for each in FOUND if "template" in each.get("spec", {})}
CONTAINERS = {name: pod["spec"]["containers"][0] for name, pod in PODS.items()}


HELM = pytest.mark.skipif(shutil.which("helm") is None, reason="helm, which renders the chart, is not installed")


def of(kind, found=FOUND):
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def test_there_is_one_of_each_under_a_known_version():
    versions = {
        "ConfigMap": "v1",
        "Service": "v1",
        "Job": "batch/v1",
        "StatefulSet": "apps/v1",
        "Deployment": "apps/v1",
        "PodDisruptionBudget": "policy/v1",
    }
    assert {each["kind"]: each["apiVersion"] for each in FOUND} == versions
    names = [(each["kind"], each["metadata"]["name"]) for each in FOUND]
    assert len(set(names)) == len(names)


def test_selectors_find_the_pods_and_services_their_ports():
    for workload in (*of("StatefulSet").values(), *of("Deployment").values()):
        selector, labels = workload["spec"]["selector"], workload["spec"]["template"]["metadata"]["labels"]
        assert selector == {"matchLabels": labels}
    for name, service in of("Service").items():
        assert service["spec"]["selector"] == PODS[name]["metadata"]["labels"]
        ports = {port["name"]: port["containerPort"] for port in CONTAINERS[name]["ports"]}
        assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports
    assert of("PodDisruptionBudget")["resonance"]["spec"]["selector"]["matchLabels"] == {"app": "resonance"}
    assert of("StatefulSet")["resonance"]["spec"]["serviceName"] in of("Service")


@pytest.mark.parametrize("name", PODS)
def test_pods_need_no_right_and_their_mounts_are_there(name):
    pod, container = PODS[name]["spec"], CONTAINERS[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume} <= set(of("ConfigMap"))
    assert container["resources"]["limits"]["memory"]


def test_a_worker_has_the_memory_that_it_needs():
    assert CONTAINERS["resonance"]["resources"]["limits"]["memory"] == "1Gi"
    assert LEAST * PEAK <= 512 * MIB <= SHARE * 1024 * MIB


def test_probes_are_those_of_the_documentation():
    worker, page = CONTAINERS["resonance"], CONTAINERS["resonance-page"]
    paths = [worker[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert paths == [{"path": path, "port": "http"} for path in ("/livez", "/livez", "/readyz")]
    assert all(page[probe]["tcpSocket"]["port"] == "page" for probe in ("startupProbe", "livenessProbe"))


def test_secrets_are_those_that_the_file_says_how_to_create():
    commands = [line.split() for line in FILE.read_text().splitlines() if "create secret" in line]
    created = {
        (words[5], each.removeprefix("--from-literal=").partition("=")[0])
        for words in commands
        for each in words
        if each.startswith("--from-literal")
    }
    wanted = [
        each["valueFrom"]["secretKeyRef"]
        for container in CONTAINERS.values()
        for each in container["env"]
        if "secretKeyRef" in each["valueFrom"]
    ]
    assert {(each["name"], each["key"]) for each in wanted} == created


@pytest.mark.parametrize("name", PODS)
def test_settings_and_commands_are_of_this_release(name):
    given = tomllib.loads(of("ConfigMap")["resonance"]["data"]["resonance.toml"])
    flat = {key: value for key, value in given.items() if not isinstance(value, dict)}
    for section, values in given.items():
        if isinstance(values, dict):
            flat |= {f"{section}.{key}": value for key, value in values.items()}
    for each in CONTAINERS[name]["env"]:
        flat[each["name"].removeprefix("RESONANCE_").lower().replace("__", ".")] = "a-value"
    assert Settings.of(flat).name == "machines"
    command, *rest = CONTAINERS[name]["args"]
    found = typer.main.get_command(app)
    context = found.make_context("resonance", [], resilient_parsing=True)
    chosen = found.get_command(context, command)
    if hasattr(chosen, "get_command"):
        chosen = chosen.get_command(context, rest.pop(0))
    options = {option for parameter in chosen.params for option in parameter.opts}
    assert {each.partition("=")[0] for each in rest} <= options


def test_the_page_visits_every_worker():
    workers = of("StatefulSet")["resonance"]["spec"]["replicas"]
    visited = [each for each in CONTAINERS["resonance-page"]["args"] if each.startswith("--worker")]
    assert visited == [f"--worker=http://resonance-{number}.resonance:6066" for number in range(workers)]


def rendered(name, *options):
    command = ["helm", "template", name, str(CHART), *options]
    return list(yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


@HELM
def test_the_manifests_are_the_chart_with_its_values():
    assert rendered("resonance") == FOUND, "run: make manifests"


@HELM
def test_the_chart_takes_other_values():
    options = "alerts={--publish},workerArgs={--reset},env[0].name=A,env[0].value=b,pod.nodeSelector.disk=ssd,"
    options += "replicas=3,secrets.kafka=,disk=5Gi,image=mine:1,serviceMonitor.enabled=true,serviceMonitor.labels.of=p"
    found = rendered("fleet", "--is-upgrade", "--set", options)
    (workers,), (page, alerts) = of("StatefulSet", found).values(), of("Deployment", found).values()
    assert alerts["spec"]["template"]["spec"]["containers"][0]["args"] == ["alerts", "--publish"]
    assert workers["spec"]["template"]["spec"]["containers"][0]["args"] == ["worker", "--reset"]
    arguments = page["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[2:] == [f"--worker=http://fleet-{number}.fleet:6066" for number in range(3)]
    assert workers["spec"]["replicas"] == 3
    (job,) = of("Job", found).values()
    assert job["metadata"]["name"] == "fleet-topics-1"
    for each in (workers, page, alerts, job):
        pod = each["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"disk": "ssd"}
        assert {"name": "A", "value": "b"} in pod["containers"][0]["env"]
        assert {"name": "temporary", "emptyDir": {"sizeLimit": "5Gi"}} in pod["volumes"]
        assert pod["containers"][0]["image"] == "mine:1"
        assert "SASL" not in str(pod)
    monitor = of("ServiceMonitor", found)["fleet"]
    assert monitor["metadata"]["labels"] == {"app": "fleet", "of": "p"}
    service = of("Service", found)["fleet"]
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_the_manifests_have_the_values_of_the_chart():
    """What can be seen without helm: neither was changed alone."""
    values, chart = (yaml.safe_load((CHART / name).read_text()) for name in ("values.yaml", "Chart.yaml"))
    assert of("ConfigMap")["resonance"]["data"]["resonance.toml"] == values["settings"]
    assert of("StatefulSet")["resonance"]["spec"]["replicas"] == values["replicas"]
    assert {container["name"]: container["resources"] for container in CONTAINERS.values()} == values["resources"]
    assert {container["image"] for container in CONTAINERS.values()} == {values["image"]}
    assert values["image"].partition(":")[2] == chart["version"] == chart["appVersion"] == version("resonance-streams")
