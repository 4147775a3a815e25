"""The manifests for Kubernetes hold together, and start what this release has."""

import tomllib
from pathlib import Path

import pytest
import typer
import yaml
from resonance.pipeline.cli.main import app
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.memory_budget import LEAST, MIB, PEAK, SHARE

FILE = Path(__file__).parents[1] / "docker" / "kubernetes" / "resonance.yaml"
FOUND = list(yaml.safe_load_all(FILE.read_text()))
PODS = {each["metadata"]["name"]: each["spec"]["template"] for each in FOUND if "template" in each.get("spec", {})}
CONTAINERS = {name: pod["spec"]["containers"][0] for name, pod in PODS.items()}


def of(kind):
    return {each["metadata"]["name"]: each for each in FOUND if each["kind"] == kind}


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
