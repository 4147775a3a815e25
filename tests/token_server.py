"""A provider of tokens in the process of a test, on loopback: OpenID Connect's token endpoint, and its failures."""

import base64
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl


class TokenServer:
    """Issues tokens that only a broker without a provider's keys believes: they are not signed."""

    def __init__(self, client, secret):
        self.client = client
        self.secret = secret
        self.seconds = 300.0
        """For which a token is valid."""
        self.requests = []
        """Path, client and secret, and form of each request."""
        self.answer = None
        """Status and body of every answer; None for tokens."""
        self.url = ""

    def token(self):
        now = time.time()
        claims = {"sub": self.client, "iat": now, "exp": now + self.seconds, "jti": str(len(self.requests))}
        return ".".join(map(_part, ({"alg": "none"}, claims))) + "."

    def answered(self, path, login, form):
        """Return status and body for a request."""
        self.requests.append((path, login, form))
        if self.answer is not None:
            return self.answer
        if login != f"{self.client}:{self.secret}":
            return 401, {"error": "invalid_client", "error_description": "no such client"}
        return 200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.seconds}


def _part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@contextmanager
def running(client, secret):
    """A `TokenServer` that answers at its `url`."""
    provider = TokenServer(client, secret)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            kind, _, login = self.headers.get("Authorization", "").partition(" ")
            found = base64.b64decode(login).decode() if kind == "Basic" else ""
            status, body = provider.answered(self.path, found, form)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
