"""Tokens for the log-ins of aiokafka: librdkafka fetches its own, and hands them to no other client."""

import asyncio
import base64
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed

ANSWER_SECONDS: Final = 10.0
"""How long the provider may take to answer."""

USED: Final = 0.8
"""Part of its life for which a token is used for new connections, as librdkafka does."""

SHORT: Final = 200
"""Most characters of a provider's error that a message shows."""


class OAuthTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Fetches tokens with a client's credentials (RFC 6749, 4.4), and keeps each for a part of its life.

    Connections of any thread may request one: they share it.

    Parameters
    ----------
    url : str
        The provider's token endpoint.
    client, secret : str
        Id and secret of the client.
    scope : str
        Scope of the tokens; empty for the provider's default.
    context : SSLContext
        Authorities that are trusted for the endpoint.
    clock : callable
        Seconds that only go forward.
    """

    def __init__(
        self,
        url: str,
        client: str,
        secret: str,
        *,
        scope: str = "",
        context: ssl.SSLContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        login = base64.b64encode(f"{client}:{secret}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        self._form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._context = context
        self._clock = clock
        self._lock = threading.Lock()
        self._kept, self._until = "", float("-inf")

    async def token(self) -> str:
        """Return a token for a new connection.

        Raises `SaslAuthenticationFailed` where the provider refuses the client, and `KafkaConnectionError` where it
        does not answer: aiokafka then tries again.
        """
        return await asyncio.to_thread(self._shared)

    def _shared(self) -> str:
        with self._lock:
            if self._clock() >= self._until:
                began = self._clock()
                self._kept, seconds = asyncio.run(self._fetched())
                self._until = began + USED * seconds
            return self._kept

    async def _fetched(self) -> tuple[str, float]:
        """Return a new token, and the seconds that it is valid for; 0 where the provider does not say it."""
        try:
            timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
            async with (
                aiohttp.ClientSession(headers=self._headers, timeout=timeout, proxy=_proxy(self._url)) as session,
                # A redirect could lead the secret elsewhere.
                session.post(self._url, data=self._form, ssl=self._context, allow_redirects=False) as answer,
            ):
                found, status = await _body(answer), answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise KafkaConnectionError(f"{self._url} gives no token ({reason[:SHORT]})") from None
        if status >= 500:
            raise KafkaConnectionError(f"{self._url} gives no token (HTTP status {status})")
        token, seconds = found.get("access_token"), found.get("expires_in", 0)
        if status != 200 or not isinstance(token, str) or not token:
            said = ": ".join(str(found[name]) for name in ("error", "error_description") if name in found)
            what = said[:SHORT] or "no access_token in it"
            raise SaslAuthenticationFailed(f"{self._url} gives no token: HTTP status {status}, {what}")
        return token, seconds if isinstance(seconds, int | float) else 0.0


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for an address, as librdkafka takes it."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


async def _body(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        found = await answer.json(content_type=None)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
