"""The demo's worker and its page: the real commands in processes of their own, which can be killed and restarted."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from resonance.pipeline.config.sources import PREFIX
from resonance.pipeline.errors import ResonanceError

STOP_SECONDS = 15.0
"""Time after SIGTERM within which a worker must end; then it is killed."""


class WorkerFailedError(ResonanceError):
    """The demo's worker ended by itself."""


class WorkerProcess:
    """Runs ``resonance worker``, or another `command`, with a settings file, and writes its output to a log file."""

    def __init__(self, config: Path, log: Path, command: Sequence[str] = ("worker",)) -> None:
        self._config = config
        self._command = command
        self._log_path = log
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # 0 before the first start.
        self.pid = 0

    def start(self) -> None:
        """Start the worker."""
        self._log = self._log or self._log_path.open("wb")
        # The settings file is complete: settings in the user's environment are meant for other workers.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "resonance.pipeline.cli.main", *self._command, "--config", str(self._config)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment,
            # Ctrl-C must reach the demo alone, which then stops its worker in order.
            start_new_session=True,
        )
        self.pid = self._process.pid

    def check(self) -> None:
        """Raise `WorkerFailedError` if the worker has ended."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise WorkerFailedError(
                f"the {self._command[0]} ended with exit code {code}: {self._last_line()} (its log: {self._log_path})"
            )

    def kill(self) -> None:
        """Kill the worker with SIGKILL: it flushes nothing and does not leave its group."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the worker, in order if it ends in time, and close its log."""
        try:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                try:
                    self._process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self.kill()
        except BaseException:
            self.kill()  # a second Ctrl-C
            raise
        finally:
            if self._log is not None:
                self._log.close()
                self._log = None

    def _last_line(self) -> str:
        lines = self._log_path.read_text(errors="replace").splitlines() if self._log_path.exists() else []
        return lines[-1] if lines else "it wrote nothing"


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
