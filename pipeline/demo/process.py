"""The demo's worker and its page: the real commands in processes of their own, which can be killed and restarted."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from resonance.pipeline.config.sources import PREFIX
from resonance.pipeline.errors import ResonanceError

STOP_SECONDS = 15.0
"""Time after SIGTERM within which a process must end; then it is killed."""


class WorkerFailedError(ResonanceError):
    """The demo's worker ended by itself."""


class WorkerProcess:
    """Runs a command with a settings file, and writes its output to a log file."""

    def __init__(self, config: Path, log: Path, *command: str) -> None:
        self._arguments = [sys.executable, "-m", "resonance.pipeline.cli.main", *command, "--config", str(config)]
        self._command = command[0]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Id of the process; 0 before the first start."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the command, the first time with an empty log."""
        # The settings file is complete: settings in the user's environment are meant for other workers.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        with self._log.open("wb" if self._process is None else "ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                # Ctrl-C must reach the demo alone, which then stops its worker in order.
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise `WorkerFailedError` if the process has ended."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            last = ["it wrote nothing", *self._log.read_text(errors="replace").splitlines()][-1]
            raise WorkerFailedError(f"the {self._command} ended with exit code {code}: {last} (its log: {self._log})")

    def kill(self) -> None:
        """Kill the process with SIGKILL: it flushes nothing and does not leave its group."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the process, in order if it ends in time."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        except BaseException:
            self.kill()  # a second Ctrl-C
            raise


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
