import os
import signal
import subprocess
import sys

import pytest
from resonance.pipeline.crash_points import FAULT_POINTS, reach


def run(point, script):
    environment = os.environ | {"RESONANCE_FAULT_POINT": point}
    program = f"from resonance.pipeline.crash_points import reach\n{script}"
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_without_the_variable_nothing_happens():
    for name in FAULT_POINTS:
        reach(name)


@pytest.mark.parametrize(("point", "arrivals"), [("after-produce", 1), ("after-produce:3", 3)])
def test_the_process_dies_at_the_named_arrival(point, arrivals):
    script = "reach('after-begin')\nfor n in range(9):\n    print(n, flush=True)\n    reach('after-produce')"
    done = run(point, script)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == [str(n) for n in range(arrivals)]


@pytest.mark.parametrize("point", ["after-lunch", "after-produce:x"])
def test_an_unknown_point_is_refused(point):
    done = run(point, "")
    assert done.returncode == 1
    assert f"RESONANCE_FAULT_POINT = {point!r}" in done.stderr
