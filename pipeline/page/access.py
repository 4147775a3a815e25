"""Who may see the page: with a token those who have it, without one this machine."""

import hmac
from typing import Final

from aiohttp import web
from resonance.pipeline.config.messages import variable
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.worker.http.pages import foreign_host, is_loopback, json_response

PAGES: Final = ("/", "/stream", "/cluster", "/incident", "/events", "/operations")
"""Addresses that show the page; what they are about stands behind the question mark."""

SETTING: Final = "page.token"


def check_exposure(token: str, host: str) -> None:
    """Raise `ConfigurationError` where others than this machine could see the page without a token."""
    if not (token or is_loopback(host)):
        raise ConfigurationError(
            f"--host = {host}: others than this machine could see the page, ids and places of records included; set "
            f"{variable(SETTING)} to a secret ({SETTING}), or leave --host out"
        )


class Access:
    """Lets requests pass that may see the page.

    With a `token` every request needs it: as ``Authorization: Bearer``, or once in the address of a page, which a
    cookie then replaces. Without one only requests that name this machine pass, so that no page of the web can have a
    name of its own lead here.
    """

    def __init__(self, token: str, host: str, port: int) -> None:
        self._token = token
        self._host = host
        # Browsers have one set of cookies for all ports of a host.
        self._name = f"resonance_page_{port}"
        # The token cannot be learned from it, and with another token it is no longer valid.
        self._cookie = hmac.digest(_bytes(token), b"cookie of the page", "sha256").hex() if token else ""

    def answer(self, request: web.Request) -> web.Response | None:
        """Return the response where the page itself is none: a refusal, or the move to an address without the token."""
        if not self._token:
            error = foreign_host(request, self._host)
            if error is None and request.path not in PAGES and request.headers.get("Sec-Fetch-Site") == "cross-site":
                # It could not read the answer, and would have the work done.
                error = "the page answers no page of another site"
            return None if error is None else json_response({"error": error}, 403)
        is_page = request.path in PAGES
        if is_page and (given := request.query.get("token")) is not None:
            return self._moved(request) if _equal(given, self._token) else self._refused()
        known = _equal(request.headers.get("Authorization", ""), f"Bearer {self._token}")
        return None if known or _equal(request.cookies.get(self._name, ""), self._cookie) else self._refused()

    def _moved(self, request: web.Request) -> web.Response:
        query = request.rel_url.without_query_params("token").raw_query_string
        # One of our own paths: what a request has as its path can be read as the name of another host.
        moved = web.Response(status=303, headers={"Location": f"{request.path}?{query}" if query else request.path})
        # The proxy that has the certificate may be another program.
        secure = request.secure or request.headers.get("X-Forwarded-Proto", "").lower() == "https"
        moved.set_cookie(self._name, self._cookie, httponly=True, samesite="Strict", secure=secure, path="/")
        return moved

    def _refused(self) -> web.Response:
        text = f"this page needs its token ({SETTING}): open it once with ?token=TOKEN behind its address"
        refused = json_response({"error": text}, 401)
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused


def _equal(given: str, wanted: str) -> bool:
    """Return whether two texts are the same, in a time that says nothing of where they differ."""
    return hmac.compare_digest(_bytes(given), _bytes(wanted))


def _bytes(given: str) -> bytes:
    # A header can have bytes that are no UTF-8.
    return given.encode(errors="surrogatepass")
