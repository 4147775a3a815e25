"""Requests to a worker are signed with its token, which is not sent: another program may listen where no worker does.

What that program gets is good for the same request to its own port alone, and for a minute.
"""

import hmac
import re
import time
from typing import Final
from urllib.parse import urlsplit

SCHEME: Final = "Resonance-HMAC-SHA256"
TLS: Final = "https"
HTTP_PORT: Final = 80
VALID_SECONDS: Final = 60.0
"""By how much the clocks of two machines may differ."""


def signed(token: str, method: str, worker: str, path: str, body: bytes = b"") -> dict[str, str]:
    """Return the headers of a request to the worker at an address, which has a token; none without one."""
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


def _signature(token: str, seconds: str, method: str, target: str, path: str, body: bytes) -> str:
    text = f"{SCHEME}\n{seconds}\n{method}\n{target}\n{path}\n".encode(errors="surrogatepass")
    return hmac.digest(token.encode(errors="surrogatepass"), text + body, "sha256").hex()
