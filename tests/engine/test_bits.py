"""The same records give the same bits, on every CPU and in every version."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.bits import CASES, hashes

RECORDED = Path(__file__).parents[1] / "data" / "engine_bits.json"


def test_the_bits_are_those_of_this_revision():
    """When this fails and the change is wanted, raise the engine's revision and record the new bits."""
    assert hashes() == json.loads(RECORDED.read_text())


# By what they compile: HCAEA needs the kernels of CAEA, too.
FAMILIES = {"prepare": ["prepare"]}
for _name, _engine in CASES.items():
    FAMILIES.setdefault(_engine.__module__.split(".")[2].removeprefix("h"), []).append(_name)


SECONDS = 1_500
"""Only what hangs takes so long: half a minute quiet, ten times as much beside many other processes."""


# One family by one: each compiles its kernels for that other processor, where they are not kept from the last time.
@pytest.mark.nightly
@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_bits_do_not_depend_on_the_cpu(family):
    plain = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
        " X86_V3 X86_V4",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX512F,-FMA",
        "OPENBLAS_CORETYPE": "Prescott",
    }
    program = [sys.executable, "-m", "tests.engine.bits", *FAMILIES[family]]
    run = subprocess.run(program, env=os.environ | plain, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 0, run.stderr
    recorded = json.loads(RECORDED.read_text())
    assert json.loads(run.stdout) == {n: bits for n, bits in recorded.items() if n.split()[0] in FAMILIES[family]}
