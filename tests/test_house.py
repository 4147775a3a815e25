"""How the house is built: what may import what, and what is in the wheel."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest

from tests.floors import FLOORS, PICTURE, drawing, imported, imports_up

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("engine", "schemas", "pipeline")
MAY_IMPORT = {"engine": {"engine"}, "schemas": {"schemas"}, "pipeline": {"engine", "schemas", "pipeline"}}


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_go_one_way(folder):
    for path in (ROOT / folder).rglob("*.py"):
        used = {name.split(".")[1] for name in imported(path) if name.startswith("resonance.")}
        assert used <= MAY_IMPORT[folder], path


def test_no_import_of_the_pipeline_runs_up():
    rooms = {path.stem for path in (ROOT / "pipeline").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert sorted(room for floor in FLOORS for room in floor) == sorted(rooms - {"__init__", "__pycache__"})
    assert list(imports_up()) == []


def test_the_picture_of_the_floors_is_of_now():
    assert PICTURE.read_text() == drawing(), "draw it anew: .venv/bin/python -m tests.floors"


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for folder in ("pipeline", "schemas"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


@pytest.mark.parametrize("folder", [*FOLDERS, "tests", "bench"])
def test_nothing_imports_the_folders_by_their_bare_names(folder):
    for path in (ROOT / folder).rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(path)} & set(FOLDERS), path


def test_the_engine_knows_no_kafka_no_clock_and_no_pickle():
    forbidden = {"faust", "aiokafka", "confluent_kafka", "time", "datetime", "random", "pickle", "asyncio", "orjson"}
    for path in (ROOT / "engine").rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(path)} & forbidden, path


def test_nothing_uses_pickle():
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            assert not {"pickle", "shelve", "marshal", "dill"} & {n.split(".")[0] for n in imported(path)}, path


def test_the_package_list_matches_the_folders():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {
        "resonance." + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert set(project["packages"]) == found
    assert {name.split(".")[1] for name in project["package-dir"] if name.count(".") == 1} == set(FOLDERS)


@pytest.mark.slow
def test_the_wheel_holds_schemas_and_types(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    copy = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(copy)], check=True)
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(copy)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in FOLDERS:
        assert f"resonance/{folder}/py.typed" in names
        for path in (ROOT / folder).rglob("*.py"):
            tracked = subprocess.run(
                ["git", "ls-files", "--error-unmatch", str(path)], cwd=ROOT, capture_output=True, check=False
            )
            if tracked.returncode == 0:
                assert f"resonance/{path.relative_to(ROOT)}" in names
    for schema in (ROOT / "schemas").glob("*.schema.json"):
        assert f"resonance/schemas/{schema.name}" in names


def test_the_locked_versions_name_no_index():
    lines = (ROOT / "requirements" / "lock.txt").read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith(("#", " "))]
    assert pinned
    assert all("==" in line for line in pinned)
    assert not [line for line in lines if "://" in line or "--index" in line or "--find-links" in line]
