"""Processes that begin where imports and kernels are loaded: a start costs a tenth of what a new interpreter does.

They are processes of their own, each forked from a server that does nothing else and has no thread or client of ours.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

from resonance.kernels.cache import prepare_cache
from resonance.pipeline import crash_points

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["tests.integration.preloaded"])


def _run(module, arguments, folder, environment, output):
    # The server lives as long as we do: it is for us to notice that the tests were killed.
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    with Path(output).open("ab") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    prepare_cache()
    # What was read from the environment when the server imported it.
    text = environment.get(crash_points.VARIABLE, "")
    crash_points._name, crash_points._left = crash_points._armed(text) if text else ("", 0)
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()


def _end_with(tests):
    tests.join()
    os._exit(1)


class ForkedProcess:
    """A Python module's `main`, with the part of `subprocess.Popen` that the tests use."""

    def __init__(self, command, *, cwd, env, output):
        module, *arguments = command
        self._process = _server.Process(
            target=_run, args=(module, arguments, str(cwd), dict(env), str(output)), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        """Exit code, or minus the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        """Wait for its end; return the exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number):
        """Send a signal, unless it has ended."""
        if self.poll() is None and self.pid is not None:
            os.kill(self.pid, number)

    def kill(self):
        self._process.kill()
