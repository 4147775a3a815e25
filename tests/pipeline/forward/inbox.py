"""A receiver of alerts in the process of a test, on loopback, with the failures that it is given."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from resonance.pipeline.forward.notices import notice_of
from resonance.pipeline.records import Record


class Inbox:
    """Keeps what it has taken; `answer` returns status and headers for the content of a request."""

    def __init__(self, port=0):
        self.taken = []
        self.requests = []
        self.headers = {}
        self.seconds = 0.0
        self.answer = lambda _: (200, {})
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                time.sleep(inbox.seconds)
                status, headers = inbox.answer(content)
                inbox.headers = dict(self.headers)
                inbox.requests.append(content)
                if status < 300:
                    inbox.taken += content if isinstance(content, list) else [content]
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def found(self):
        """The keys of the alerts that it has, and whether each is open, in their order."""
        return [
            (each["dedup_key"], each["event_action"] == "trigger")
            if "dedup_key" in each
            else (each["annotations"]["key"], each["endsAt"] > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            for each in self.taken
        ]


@contextmanager
def opened(port=0):
    """An inbox that answers."""
    inbox = Inbox(port)
    threading.Thread(target=inbox._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield inbox
    finally:
        inbox._server.shutdown()
        inbox._server.server_close()


def notice(*given, **members):
    """What is sent of such a message."""
    return notice_of("alerts", record(alert(*given, **members)))


def record(payload):
    """A message of the topic of alerts, or of incidents."""
    return Record("shop.alerts", 0, 0, 0, payload["key"].encode(), json.dumps(payload).encode())


def alert(number=0, kind="opened", name="shop", rule="unlike", **members):
    """A message of the topic, about a stream with a number."""
    stream = f"p{number % 2}:d{number}"
    time_of = {"opened": "2026-05-06T10:00:00.000Z", "cleared": "2026-05-06T10:30:00.000Z"}
    return {
        **{"kind": kind, "rule": rule, "key": f"{name}/{rule}/{stream}/1/0", "severity": "critical", "stream": stream},
        **{"version": 1, "seq": int(kind == "cleared"), "text": f"{stream} is unlike", "evidence": {"records": 6.0}},
        **{"since": time_of["opened"], "time": time_of[kind]},
        **{"cause": {"id": f"r{number}", "source": {"topic": "t", "partition": number % 2, "offset": number}}},
        **members,
    }
