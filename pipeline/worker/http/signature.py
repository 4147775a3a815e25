"""Requests to a worker are signed with its token, which is not sent: another program may listen where no worker does.

What that program gets is good for the same request alone, and for a minute.
"""

import hmac
import re
import time
from typing import Final

SCHEME: Final = "Resonance-HMAC-SHA256"
VALID_SECONDS: Final = 60.0
"""By how much the clocks of two machines may differ."""


def signed(token: str, method: str, path: str, body: bytes = b"") -> dict[str, str]:
    """Return the headers of a request to a worker with a token; none without one."""
    if not token:
        return {}
    seconds = str(int(time.time()))
    return {"Authorization": f"{SCHEME} {seconds} {_signature(token, seconds, method, path, body)}"}


def is_signed(given: str, token: str, method: str, path: str, body: bytes) -> bool:
    """Return whether a header ``Authorization`` is of this request, and of now."""
    found = re.fullmatch(rf"{SCHEME} ([0-9]{{1,12}}) ([0-9a-f]{{64}})", given)
    if found is None or abs(time.time() - int(found[1])) > VALID_SECONDS:
        return False
    return hmac.compare_digest(found[2], _signature(token, found[1], method, path, body))


def _signature(token: str, seconds: str, method: str, path: str, body: bytes) -> str:
    text = f"{SCHEME}\n{seconds}\n{method}\n{path}\n".encode(errors="surrogatepass")
    return hmac.digest(token.encode(errors="surrogatepass"), text + body, "sha256").hex()
