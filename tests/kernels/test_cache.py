"""Where compiled kernels are kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba import types
from numba.core.dispatcher import Dispatcher
from resonance import kernels
from resonance.engine import ENGINES
from resonance.kernels.arithmetic import log
from resonance.kernels.cache import FLAGS, folder_name, packages_behind, prepare_cache

SOURCES = Path(kernels.__file__).parents[1]
KERNELS = {
    "resonance.engine.caea.learn",
    "resonance.engine.hcaea.tree",
    "resonance.engine.mlca.learn",
    "resonance.engine.modal.learn",
    "resonance.engine.evq.learn",
    "resonance.engine.modal.density",
    "resonance.pipeline.text.json_members",
    "resonance.pipeline.task.alerts.kernels.silence",
}

TEXT = {"resonance.pipeline.text.json_members"}
MODAL = {"resonance.engine.modal.learn", "resonance.engine.modal.density"}


@pytest.mark.parametrize(
    ("changed", "moved"),
    [
        ("engine/caea/model.py", {"resonance.engine.caea.learn", "resonance.engine.hcaea.tree"}),
        ("engine/modal/nearest.py", MODAL),
        ("engine/hcaea/tree.py", {"resonance.engine.hcaea.tree"}),
        *(("kernels/arithmetic.py", KERNELS), ("engine/events.py", KERNELS), ("engine/__init__.py", set())),
        *(("kernels/cache.py", set()), ("pipeline/text/paste.py", TEXT)),
    ],
)
def test_a_change_moves_the_kernels_that_depend_on_it(tmp_path, changed, moved):
    folder = shutil.copytree(SOURCES, tmp_path / "resonance")
    before = {kernel: folder_name(kernel, SOURCES) for kernel in KERNELS}
    (folder / changed).write_text((folder / changed).read_text() + "\n# changed\n")
    assert {kernel for kernel in KERNELS if folder_name(kernel, folder) != before[kernel]} == moved


def test_each_module_has_its_own_folder():
    assert Path(log.stats.cache_path) == prepare_cache() / folder_name("resonance.kernels.arithmetic")


def test_a_second_environment_compiles_nothing(tmp_path):
    code = "from resonance.kernels.arithmetic import log; print(log(1.0), sum(log.stats.cache_hits.values()))"
    for environment, found in (("first", "0.0 0"), ("second", "0.0 1")):
        shutil.copytree(SOURCES, tmp_path / environment / "resonance")
        variables = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": str(tmp_path / environment)}
        run = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == found


@pytest.mark.parametrize(("kind", "left"), [("nbi", 0.0), ("nbc", 0.7)])
def test_what_is_damaged_is_compiled_anew(tmp_path, kind, left):
    code = "from resonance.kernels.arithmetic import log; print(log(1.0), sum(log.stats.cache_hits.values()))"
    command, variables = [sys.executable, "-c", code], {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(command, env=variables, check=True)
    for file in tmp_path.rglob(f"arithmetic.log-*.{kind}"):
        os.truncate(file, int(left * file.stat().st_size))
    said = [subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said == ["0.0 0\n", "0.0 1\n"]


def test_a_folder_that_the_user_names_holds_all_kernels_and_numba_keeps_its_setting(tmp_path):
    code = (
        "import numba; numba.config.CACHE_DIR = 'mine'; from resonance.kernels.arithmetic import log; "
        "print(log(1.0), numba.config.CACHE_DIR, log.stats.cache_path)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env={"NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    value, setting, kept = run.stdout.split()
    assert (value, setting, Path(kept).parent) == ("0.0", "mine", tmp_path)
    assert list(tmp_path.rglob("*.nbi"))


FIND = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])  # the module alone, without the engines and their kernels
import cache
cache.MEMORY = Path(sys.argv[1])
LIMIT
try:
    print(*cache.kernel_folder(), sep="\\n")
except OSError as error:
    print(error.strerror)
"""
SMALL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"


def find(tmp_path, *, limit="", **environment):
    """Return the folder that a new process chooses and why, and the folders that it can choose from."""
    folders = {name: tmp_path / name for name in ("home", "temporary", "memory")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    given = {"XDG_CACHE_HOME": str(folders["home"]), "TMPDIR": str(folders["temporary"]), **environment}
    code = FIND.replace("LIMIT", limit)
    run = subprocess.run(
        [sys.executable, "-c", code, str(folders["memory"]), str(SOURCES / "kernels")],
        env=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines(), folders


def full(*names):
    """Return code that replaces the check of a folder by one that finds the disks of these full."""
    return f"""
before = cache._why_not
cache._why_not = lambda at: "full" if any("/" + name + "/" in str(at) for name in {names}) else before(at)
"""


def private(folder):
    return str(folder / f"resonance-kernels-{os.getuid()}")


def test_a_folder_that_takes_files_but_no_bytes_is_left_for_the_temporary_folder_and_that_for_memory(tmp_path):
    (found, reason), at = find(tmp_path, limit=full("home"))
    assert (found, reason) == (private(at["temporary"]), "full")
    (found, reason), at = find(tmp_path, limit=full("home", "temporary"))
    assert (found, reason) == (private(at["memory"]), "full; full")
    (error,), _ = find(tmp_path, limit=full("home", "temporary", "memory"))
    assert error.startswith("no folder takes compiled kernels (full; full; full); make 32 MB of room")


def test_a_user_without_a_home_keeps_kernels_in_the_temporary_folder(tmp_path):
    unknown = "import pwd; pwd.getpwuid = {}.__getitem__"
    (found, reason), at = find(tmp_path, limit=unknown, XDG_CACHE_HOME="")
    assert (found, reason) == (private(at["temporary"]), "no home folder is known (HOME is not set)")
    (found, reason), at = find(tmp_path, limit=unknown, XDG_CACHE_HOME="", NUMBA_CACHE_DIR=str(tmp_path))
    assert (found, reason) == (str(tmp_path), "")


def test_a_full_disk_still_takes_an_empty_file_and_is_noticed_all_the_same(tmp_path):
    (error,), at = find(tmp_path, limit=SMALL)
    assert f"{at['home']}/resonance/kernels: File too large" in error


def test_kernels_in_a_folder_that_cannot_be_written_are_used_from_there(tmp_path):
    kept = tmp_path / "home" / "resonance" / "kernels" / "0123" / "engine_1"
    kept.mkdir(parents=True)
    (kept / "fma.nbi").write_bytes(b"index")
    (found, _), _ = find(tmp_path, limit=full("home"))
    assert (Path(found) / "0123" / "engine_1" / "fma.nbi").read_bytes() == b"index"


SLOW = """
import sys, time
from numba.core.caching import IndexDataCacheFile
from resonance.kernels.arithmetic import log1p
save = IndexDataCacheFile._save_index
def slowly(self, overloads):
    time.sleep(1.0)  # the other process reads the index meanwhile
    save(self, overloads)
IndexDataCacheFile._save_index = slowly
print(log1p({"float": 0.0, "int": 0}[sys.argv[1]]), sum(log1p.stats.cache_hits.values()))
"""


@pytest.mark.nightly
def test_two_processes_that_save_two_forms_of_a_kernel_keep_both(tmp_path):
    def start(form):
        command = [sys.executable, "-c", SLOW, form]
        return subprocess.Popen(command, env={"NUMBA_CACHE_DIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True)

    both = [start("float"), start("int")]
    assert [each.communicate()[0].split()[1] for each in both] == ["0", "0"]
    assert [start(form).communicate()[0].split() for form in ("float", "int")] == [["0.0", "1"], ["0.0", "1"]]


def test_kernels_whose_own_folder_cannot_be_used_are_kept_elsewhere(tmp_path):
    (tmp_path / folder_name("resonance.kernels.arithmetic")).write_text("no folder")
    code = "from resonance.kernels.arithmetic import log; print(log(1.0), log.stats.cache_path)"
    variables = {"NUMBA_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path / "home")}
    run = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    value, kept = run.stdout.split()
    assert value == "0.0"
    assert Path(kept) != tmp_path / folder_name("resonance.kernels.arithmetic")


@pytest.mark.parametrize("flag", FLAGS)
def test_kernels_of_a_run_with_a_flag_are_others(flag):
    code = "from resonance.kernels.cache import folder_name; print(folder_name('resonance.kernels.arithmetic'))"
    found = {
        subprocess.run([sys.executable, "-c", code], env=flags, capture_output=True, text=True, check=True).stdout
        for flags in ({}, {flag: "0"}, {flag: "1"})
    }
    assert len(found) == 3


def test_a_folder_in_which_another_may_write_is_not_used(tmp_path):
    (tmp_path / "temporary").mkdir()
    Path(private(tmp_path / "temporary")).mkdir(mode=0o777)
    Path(private(tmp_path / "temporary")).chmod(0o777)
    (found, _), at = find(tmp_path, limit=full("home"))
    assert found != private(at["temporary"])
    assert Path(found).parent == at["temporary"]
    assert Path(found).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ENGINES)
def test_a_kernel_is_called_with_tuples_that_its_folder_depends_on(name):
    ENGINES[name].compile()
    for module in [each for own, each in sys.modules.items() if own.startswith("resonance.engine.")]:
        for kernel in vars(module).values():
            if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == module.__name__:
                kinds = [kind for call in kernel.signatures for kind in call if isinstance(kind, types.NamedTuple)]
                # Other tests may have called it with tuples of their own.
                homes = {kind.instance_class.__module__ for kind in kinds}
                own = {"/".join(home.split(".")[1:-1]) for home in homes if home.startswith("resonance.")}
                assert own <= packages_behind(module.__name__), kernel.py_func.__name__
