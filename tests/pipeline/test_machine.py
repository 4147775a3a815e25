"""The worker's time goes into records and not into looking for cycles; a container has the cores that it may use."""

import gc

import pytest
from resonance.pipeline import machine
from resonance.pipeline.machine import YOUNG, collect_rarely


@pytest.fixture
def defaults():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("defaults")
def test_what_is_loaded_is_left_alone_and_collections_are_rare():
    collect_rarely()
    assert gc.get_freeze_count() > 1000
    collections = gc.get_stats()[0]["collections"]
    assert len([(number,) for number in range(YOUNG // 2)]) == YOUNG // 2
    assert gc.get_stats()[0]["collections"] <= collections + 1


@pytest.mark.usefixtures("defaults")
def test_cycles_are_still_collected():
    collect_rarely()
    before = gc.get_stats()[0]["collected"]
    for _ in range(3 * YOUNG):
        cycle = []
        cycle.append(cycle)
    assert gc.get_stats()[0]["collected"] > before


def groups(monkeypatch, tmp_path, member, files):
    """Let Linux say of which control groups the process is, and what they may use."""
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    (tmp_path / "member").write_text(member)
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "member")
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")


@pytest.mark.parametrize(
    ("member", "files", "found"),
    [
        ("0::/\n", {}, 64),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "20000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "9900000 100000\n"}, 64),
        ("0::/a.slice/b.service\n", {"a.slice/cpu.max": "300000 100000", "a.slice/b.service/cpu.max": "max 100000"}, 3),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "400000 100000"}, 3),
        ("0::/../other\n", {"cpu.max": "200000 100000"}, 2),
        ("4:cpu:/a\n0::/\n", {"a/cpu.max": "100000 100000"}, 64),
    ],
)
def test_a_container_has_the_cores_that_its_limit_gives(monkeypatch, tmp_path, member, files, found):
    groups(monkeypatch, tmp_path, member, files)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert machine.cores() == found


def test_a_machine_without_control_groups_has_all_its_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "none")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert machine.cores() == 3


@pytest.mark.parametrize(
    ("member", "files", "found"),
    [
        ("0::/\n", {}, None),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/\n", {"memory.max": "1073741824\n"}, 1 << 30),
        ("0::/a/b\n", {"a/memory.max": "1000000", "a/b/memory.max": "max"}, 1_000_000),
    ],
)
def test_a_container_has_the_memory_that_its_limit_gives(monkeypatch, tmp_path, member, files, found):
    groups(monkeypatch, tmp_path, member, files)
    whole = machine.os.sysconf("SC_PAGE_SIZE") * machine.os.sysconf("SC_PHYS_PAGES")
    assert machine.memory() == (found or whole)


def test_what_the_process_takes_is_known():
    assert 10_000_000 < machine.resident() < machine.memory()
