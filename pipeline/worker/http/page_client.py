"""Requests to a worker on its HTTP port."""

import http.client
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from resonance.pipeline.config.messages import variable
from resonance.pipeline.errors import ConfigurationError, WorkerPageError

RESUME_PATH: Final = "/dlq/resume"
"""Path of the request that resumes paused partitions."""
TIMEOUT: Final = 30.0
"""Seconds to wait for an answer: held records are processed before it comes."""


def resume(worker: str, partition: str | None = None, token: str = "") -> list[str]:
    """Resume paused partitions of a worker: one such as ``features[0]``, those of a number, or all; return their names.

    Raises `ConfigurationError` where `worker` is no address such as ``http://127.0.0.1:6066``, and `WorkerPageError`
    where no worker answers or the partition is not paused there.
    """
    body = {} if partition is None else {"partition": partition}
    answer = _post(worker, RESUME_PATH, body, {"Authorization": f"Bearer {token}"} if token else {})
    resumed = answer.get("resumed")
    if not isinstance(resumed, list):
        raise WorkerPageError(f"{worker}{RESUME_PATH} gave no answer of a worker: is it one, and of this release?")
    return [str(name) for name in resumed]


def _post(worker: str, path: str, content: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    connection = _connection(worker)
    try:
        connection.request("POST", path, orjson.dumps(content), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        status, body = answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise WorkerPageError(
            f"no worker answers at {worker} ({error or type(error).__name__}): is it running, and is that its "
            "worker.web_host and worker.web_port?"
        ) from error
    finally:
        connection.close()
    try:
        read = orjson.loads(body)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        read = {}
    if status == 401:
        raise WorkerPageError(
            f"the worker at {worker} wants its token (worker.web_token); set {variable('worker.web_token')} to it"
        )
    if status != 200:
        reason = read.get("error") or f"HTTP status {status}"
        raise WorkerPageError(f"the worker at {worker} refuses: {reason}; its page {worker}/readyz says what is paused")
    return read


def _connection(worker: str) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(worker)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT)
    except ValueError:
        raise ConfigurationError(
            f"--worker {worker}: write it as http://HOST:PORT, such as http://127.0.0.1:6066"
        ) from None
