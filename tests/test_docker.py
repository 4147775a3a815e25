"""The image, the compose file and what monitors it name only what there is."""

import csv
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
import yaml
from resonance.pipeline.cli import main
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.worker.http.metrics import METRICS

from tests.brokers.jvm import VERSION
from tests.series import series_names

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DASHBOARD = json.loads((DOCKER / "grafana" / "dashboards" / "resonance.json").read_text())
RULES = [rule for group in yaml.safe_load((DOCKER / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    *((f"panel {panel['title']}", target["expr"]) for panel in PANELS for target in panel["targets"]),
    *((f"variable {each['name']}", each["definition"]) for each in DASHBOARD["templating"]["list"]),
    *((f"alert {rule['alert']}", rule["expr"]) for rule in RULES),
]


def instructions():
    """Every instruction of the Dockerfile with its arguments."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines]


def of(kind):
    return [arguments for name, arguments in instructions() if name == kind]


def image_environment():
    return dict(part.split("=", 1) for line in of("ENV") for part in shlex.split(line))


def metrics_of(query):
    """Names in a query that are neither functions, nor labels, nor in a text."""
    text = re.sub(r'"[^"]*"', "", query)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring)\s*\([^)]*\)", " ", text)
    if text.startswith("label_values("):
        return {text.removeprefix("label_values(").split(",")[0].strip()}
    names = re.findall(r"\b[a-z_][a-z0-9_]*\b(?!\s*\()", text)
    return set(names) - {"and", "or", "unless", "sum", "max", "min", "avg"}


def labels_of(query):
    """Labels that a query selects or groups by."""
    selected = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query)
    grouped = re.findall(r"\bby\s*\(([^)]*)\)", query)
    return {*selected, *(name.strip() for names in grouped for name in names.split(","))}


@pytest.mark.parametrize(("where", "query"), QUERIES, ids=[where.replace(" ", "-") for where, _ in QUERIES])
def test_every_query_names_metrics_and_labels_that_there_are(where, query):
    named = metrics_of(query)
    assert named
    assert named <= series_names() | {"up"}, where
    described = {each.name: set(each.labels) for each in METRICS}
    known = {"instance", "job"}.union(*(described.get(re.sub("_bucket$", "", name), set()) for name in named))
    assert labels_of(query) <= known | ({"le"} if any(name.endswith("_bucket") for name in named) else set()), where


def test_the_names_in_a_query_are_found():
    query = 'sum by (le) (rate(a_bucket{b="c_d", e=~"$e"}[5m])) / on (f) g > 0 and max without (h) (i_j == 1)'
    assert (metrics_of(query), labels_of(query)) == ({"a_bucket", "g", "i_j"}, {"b", "e", "le"})


def test_grafana_finds_its_data_source_and_its_dashboard():
    provisioning = DOCKER / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "resonance.yml").read_text())["providers"]
    used = {panel["datasource"]["uid"] for panel in PANELS} | {
        t["datasource"]["uid"] for p in PANELS for t in p["targets"]
    }
    assert (used, source["url"]) == ({source["uid"]}, "http://prometheus:9090")
    mounted = dict(volume.split(":")[:2][::-1] for volume in SERVICES["grafana"]["volumes"])
    assert mounted[provider["options"]["path"]] == "./grafana/dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/resonance.json"


def test_prometheus_reads_every_worker_and_the_alerts():
    config = yaml.safe_load((DOCKER / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    workers = [name for name in OURS if name.startswith("worker")]
    assert job["static_configs"][0]["targets"] == [f"{name}:6066" for name in workers]
    assert config["rule_files"] == ["alerts.yml"]
    assert "./alerts.yml:/etc/prometheus/alerts.yml:ro" in SERVICES["prometheus"]["volumes"]


def test_what_is_published_is_published_on_loopback_only():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_images_are_pinned():
    images = {service["image"] for service in SERVICES.values() if "build" not in service} | {
        line.split(" ")[0] for line in of("FROM") if ":" in line
    }
    stages = {line.split(" AS ")[1] for line in of("FROM") if " AS " in line}
    assert {"kernels-amd64", "kernels-arm64"} <= stages, "what TARGETARCH can be"
    first = next(at for at, (name, _) in enumerate(instructions()) if name == "FROM")
    assert ("ARG", "TARGETARCH") in instructions()[:first], "an argument in a FROM is declared before the first one"
    assert {line.split(" ")[0] for line in of("FROM") if ":" not in line} <= stages | {"kernels-${TARGETARCH}"}
    assert all(re.search(r":v?\d+\.\d+\.\d+", image) for image in images), images
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{VERSION}", "the tests run with another one"


def test_mounted_files_and_dependencies_exist():
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            place = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).split(":")[0]
            assert (DOCKER / place).exists() if place.startswith("./") else place in COMPOSE["volumes"], place
        depends = service.get("depends_on", ())
        assert set(depends) <= set(SERVICES)
        for name in (name for name in depends if isinstance(depends, dict)):
            if depends[name]["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name]
    assert (ROOT / OURS["worker-1"]["build"]["dockerfile"]).exists()


def test_the_idle_models_of_workers_are_on_a_disk():
    for name, service in OURS.items():
        on_disk = any(volume.split(":")[1] == "/tmp" for volume in service["volumes"])  # noqa: S108 - in a container
        assert on_disk == name.startswith("worker") == ("/tmp" not in service["tmpfs"])  # noqa: S108


@pytest.mark.parametrize("name", OURS)
def test_commands_are_those_of_the_command_line_and_variables_are_settings(monkeypatch, name):
    arguments = OURS[name].get("command") or json.loads(of("CMD")[-1])
    command = typer.main.get_command(main.app)
    while hasattr(command, "commands"):
        assert arguments[0] in command.commands, f"there is no {arguments[0]}"
        command, arguments = command.get_command(None, arguments[0]), arguments[1:]
    mounted = {volume.split(":")[-2] for volume in OURS[name].get("volumes", ())}
    here = [str(ROOT / "README.md") if argument in mounted else argument for argument in arguments]
    command.make_context("resonance", here)
    for variable, value in (image_environment() | OURS[name]["environment"]).items():
        monkeypatch.setenv(variable, value)
    assert "./resonance.toml:/etc/resonance/resonance.toml:ro" in OURS[name]["volumes"]
    settings = Settings.load(DOCKER / "resonance.toml", {})
    assert settings.worker.web_host == "0.0.0.0"  # noqa: S104 - inside a container
    assert settings.broker.bootstrap == "kafka:19092"
    settings.check_stream(4)


def test_the_page_visits_every_worker_and_wants_a_token():
    page, workers = SERVICES["page"], [name for name in OURS if name.startswith("worker")]
    visited = page["command"][page["command"].index("--worker") :: 2], page["command"][4::2]
    assert visited == (["--worker"] * 2, [f"http://{name}:6066" for name in workers])
    assert "PAGE_TOKEN" in page["environment"]["RESONANCE_PAGE__TOKEN"]


def test_workers_have_names_of_their_own():
    workers = [service for name, service in OURS.items() if name.startswith("worker")]
    assert len({worker["environment"]["RESONANCE_WORKER__ID"] for worker in workers}) == len(workers) == 2
    assert all("stop_grace_period" in worker for worker in workers), "worker/test_waits.py knows how long"


def test_the_image_runs_as_an_ordinary_user_and_is_asked_for_its_health():
    assert (of("USER")[-1], json.loads(of("ENTRYPOINT")[-1])) == ("10001:10001", ["resonance"])
    assert json.loads(of("CMD")[-1]) == ["worker"]
    assert "/livez" in of("HEALTHCHECK")[0]
    compile(json.loads("[" + of("HEALTHCHECK")[0].split("CMD [", 1)[1])[-1], "healthcheck", "exec")


def test_the_image_holds_the_locked_versions_of_what_it_needs():
    def pins(name):
        text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        # Without the platforms that need a package: more do where the documentation is built.
        return {(line.split()[0], frozenset(re.findall(r"--hash=(\S+)", line))) for line in lines}

    locked, runtime, build = pins("lock.txt"), pins("runtime.txt"), pins("build.txt")
    assert runtime | build <= locked, "`make lock` makes them alike"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split("[=<>[]", each)[0] for each in needed}
    installed = {pin.split("==")[0] for pin, _ in runtime}
    assert names <= installed
    assert not {"pytest", "mypy", "pyarrow", "matplotlib"} & installed


def test_what_the_image_is_built_from_is_let_through():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {part for line in of("COPY") if "--from" not in line for part in line.split(" ")[:-1]}
    assert copied == allowed
    assert all((ROOT / path).exists() for path in copied)


def test_the_example_has_clusters_and_events_in_every_partition():
    with (DOCKER / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    settings = Settings.load(DOCKER / "resonance.toml", {})
    for partition in range(4):
        mine = [
            {name: value if name == "id" else float(value) for name, value in row.items()} for row in rows[partition::4]
        ]
        records = [Record("machines", partition, n, n, None, json.dumps(row).encode()) for n, row in enumerate(mine)]
        outputs = PartitionTask(settings, "machines", partition).process(records)
        kinds = [json.loads(event.value)["kind"] for event in outputs.cluster_events]
        assert kinds.count("emerged") + kinds.count("split") >= 4, kinds
        assert not outputs.dead_letters


def test_every_alert_says_what_is_wrong_and_what_to_look_at():
    for rule in RULES:
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    assert f"There are {words[len(RULES)]} alerts" in " ".join((ROOT / "docs" / "deployment.md").read_text().split())
