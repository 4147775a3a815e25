"""Where compiled kernels are kept."""

import subprocess
import sys


def test_kernels_are_kept_in_their_own_folder_also_after_numba_was_imported():
    code = "import numba, os; import resonance.engine; print(numba.config.CACHE_DIR == os.environ['NUMBA_CACHE_DIR'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
