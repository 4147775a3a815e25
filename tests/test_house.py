"""How the house is built: what may import what, and what is in the wheel."""

import ast
import importlib.machinery
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest

from tests.floors import FLOORS, PICTURE, drawing, imported, imports_up, parsed

ROOT = Path(__file__).resolve().parents[1]
RESONANCE = ROOT / "src" / "resonance"
FOLDERS = ("kernels", "engine", "schemas", "pipeline")
MAY_IMPORT = {"kernels": {"kernels"}, "engine": {"kernels", "engine"}, "schemas": {"schemas"}, "pipeline": set(FOLDERS)}
WITH_KERNELS = ("kernels", "engine", "pipeline/text", "pipeline/task/alerts/kernels")


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_go_one_way(folder):
    for path in (RESONANCE / folder).rglob("*.py"):
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
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


@pytest.mark.parametrize("folder", [*map(RESONANCE.joinpath, FOLDERS), ROOT / "tests", ROOT / "bench"])
def test_nothing_imports_the_folders_by_their_bare_names(folder):
    for path in folder.rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(path)} & set(FOLDERS), path


def test_the_engine_knows_no_kafka_no_clock_and_no_pickle():
    forbidden = {"faust", "aiokafka", "confluent_kafka", "time", "datetime", "random", "pickle", "asyncio", "orjson"}
    for path in [*(RESONANCE / "kernels").rglob("*.py"), *(RESONANCE / "engine").rglob("*.py")]:
        assert not {name.split(".")[0] for name in imported(path)} & forbidden, path


def test_nothing_uses_pickle():
    for folder in FOLDERS:
        for path in (RESONANCE / folder).rglob("*.py"):
            assert not {"pickle", "shelve", "marshal", "dill"} & {n.split(".")[0] for n in imported(path)}, path


def is_kernel(function):
    """Whether numba compiles it: it infers the types itself."""
    return bool({"jit", "inline", "intrinsic"} & {name.id for name in ast.walk(function) if isinstance(name, ast.Name)})


def test_every_function_beside_kernels_has_types():
    def of(node):
        """Functions below a node, kernels and what is inside of them left out."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                if not any(is_kernel(decorator) for decorator in child.decorator_list):
                    yield child
                    yield from of(child)
            else:
                yield from of(child)

    bare = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for folder in WITH_KERNELS
        for path in (RESONANCE / folder).rglob("*.py")
        for function in of(parsed(path))
        if (function.returns is None and function.name != "__init__")
        or any(each.annotation is None and each.arg not in {"self", "cls"} for each in function.args.args)
    ]
    assert not bare, bare


def test_programs_that_import_nothing_find_the_packages():
    """An editor or mypy follows a path of the installation, and no import hook."""
    found = importlib.machinery.PathFinder.find_spec("resonance")
    assert {
        folder for folder in FOLDERS if any((Path(path) / folder).is_dir() for path in found.submodule_search_locations)
    } == set(FOLDERS)


@pytest.mark.slow
def test_the_wheel_holds_schemas_and_types(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    copy = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(copy)], check=True)
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(copy)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[1] for name in names if name.startswith("resonance/")} == set(FOLDERS)
    assert all(
        name.endswith((".py", "py.typed", ".schema.json", "/evaluate/report.html")) or "/static/" in name
        for name in names
        if "dist-info" not in name
    )
    for folder in FOLDERS:
        assert f"resonance/{folder}/py.typed" in names
    wanted = [*(f"{folder}/*.py" for folder in FOLDERS), "src/resonance/kernels/*.py", "schemas/*.schema.json"]
    tracked = subprocess.run(["git", "ls-files", *wanted], cwd=copy, capture_output=True, text=True, check=True)
    assert {f"resonance/{path.removeprefix('src/resonance/')}" for path in tracked.stdout.split()} <= names


def test_the_locked_versions_name_no_index():
    lines = (ROOT / "requirements" / "lock.txt").read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith(("#", " "))]
    assert pinned
    assert all("==" in line for line in pinned)
    assert not [line for line in lines if "://" in line or "--index" in line or "--find-links" in line]
