"""Requests to a worker on its HTTP port.

They are signed with its token, which is not sent: another program may listen where no worker does. What that program
gets is good for the same request to its own port alone, and for a minute.
"""

import hmac
import http.client
import re
import time
from contextlib import suppress
from typing import Final
from urllib.parse import SplitResult, urlsplit

import orjson
from resonance.pipeline.config.messages import variable
from resonance.pipeline.errors import ConfigurationError, WorkerPageError
from resonance.pipeline.json_paths import json_or_none

SCHEME: Final = "Resonance-HMAC-SHA256"
TLS: Final = "https"
HTTP_PORT: Final = 80
VALID_SECONDS: Final = 60.0
"""By how much the clocks of two machines may differ."""


def signed(token: str, method: str, worker: str, path: str, body: bytes = b"") -> dict[str, str]:
    """Return the headers of a request to the worker at an address, which has a token; none without one.

    `path` is what is sent, with its query.
    """
    if not token:
        return {}
    parts, seconds = urlsplit(worker), str(int(time.time()))
    # Behind a TLS proxy it has another port, and no other program a certificate.
    target = TLS if parts.scheme == TLS else str(parts.port or HTTP_PORT)
    return {"Authorization": f"{SCHEME} {seconds} {_signature(token, seconds, method, target, path, body)}"}


def is_signed(given: str, token: str, method: str, port: int, path: str, body: bytes) -> bool:
    """Return whether a header ``Authorization`` is of this request to the worker on a port, and of now."""
    found = re.fullmatch(rf"{SCHEME} ([0-9]{{1,12}}) ([0-9a-f]{{64}})", given)
    if found is None or abs(time.time() - int(found[1])) > VALID_SECONDS:
        return False
    fitting = (_signature(token, found[1], method, target, path, body) for target in (str(port), TLS))
    return any(hmac.compare_digest(found[2], each) for each in fitting)


def raw(text: str) -> bytes:
    """Return the bytes of a text, which as a header may be no UTF-8."""
    return text.encode(errors="surrogatepass")


def is_same(given: str, wanted: str) -> bool:
    """Return whether two texts are the same, in a time that says nothing of where they differ."""
    return hmac.compare_digest(raw(given), raw(wanted))


def _signature(token: str, seconds: str, method: str, target: str, path: str, body: bytes) -> str:
    text = raw(f"{SCHEME}\n{seconds}\n{method}\n{target}\n{path}\n")
    return hmac.digest(raw(token), text + body, "sha256").hex()


RESUME_PATH: Final = "/dlq/resume"
"""Path of the request that resumes paused partitions."""
TIMEOUT: Final = 30.0
"""Seconds to wait for an answer: held records are processed before it comes."""
ANSWER_BYTES: Final = 1_000_000
"""Longest answer that is read: names of partitions."""


def resume(worker: str, partition: str | None = None, token: str = "") -> list[str]:
    """Resume paused partitions of a worker: one such as ``features[0]``, those of a number, or all; return their names.

    Raises `ConfigurationError` where `worker` is no address such as ``http://127.0.0.1:6066``, and `WorkerPageError`
    where no worker answers or the partition is not paused there.
    """
    parts, sent = split(worker, alone=True), orjson.dumps({} if partition is None else {"partition": partition})
    kind = http.client.HTTPSConnection if parts.scheme == TLS else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
    headers = {"Content-Type": "application/json", **signed(token, "POST", worker, RESUME_PATH, sent)}
    try:
        connection.request("POST", RESUME_PATH, sent, headers)
        answer = connection.getresponse()
        status, body = answer.status, answer.read(ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise WorkerPageError(
            f"no worker answers at {worker} ({error or type(error).__name__}): is it running, and is that its "
            "worker.web_host and worker.web_port?"
        ) from error
    finally:
        connection.close()
    found = json_or_none(body)
    read = found if isinstance(found, dict) else {}
    if status == 401:
        raise WorkerPageError(
            f"the worker at {worker} wants its token (worker.web_token): set {variable('worker.web_token')} to it; the "
            f"clocks of the two machines may differ by {VALID_SECONDS:.0f} s, and the port must be its worker.web_port"
        )
    if status != 200:
        reason = read.get("error") or f"HTTP status {status}"
        raise WorkerPageError(f"the worker at {worker} refuses: {reason}; its page {worker}/readyz says what is paused")
    if not isinstance(resumed := read.get("resumed"), list):
        raise WorkerPageError(f"{worker}{RESUME_PATH} gave no answer of a worker: is it one, and of this release?")
    return [str(name) for name in resumed]


def split(worker: str, *, alone: bool = False) -> SplitResult:
    """Return the parts of a worker's address; raises `ConfigurationError` for what is none, or has a log-in.

    One that is to stand `alone` has no path.
    """
    with suppress(ValueError):
        parts = urlsplit(worker)
        is_worker = parts.scheme in ("http", TLS) and parts.hostname and "@" not in worker and parts.port != 0
        if is_worker and not (alone and parts.path.strip("/")):
            return parts
    # Without a log-in that may stand in it.
    shown = worker.rpartition("@")[2]
    raise ConfigurationError(f"--worker {shown}: write it as http://HOST:PORT, such as http://127.0.0.1:6066")
