"""The worker's pages, over HTTP, and the command that asks one of them."""

import asyncio
import http.client
import json
import socket
from types import SimpleNamespace

import pytest
from faust.types import TP
from prometheus_client import parser
from pydantic import SecretStr
from resonance.pipeline.checkpoint.restore import RestoreProgress
from resonance.pipeline.config.sections import WorkerSection
from resonance.pipeline.errors import ConfigurationError, WorkerPageError
from resonance.pipeline.worker.assignment import Histograms
from resonance.pipeline.worker.commits import Commits
from resonance.pipeline.worker.http import page_client
from resonance.pipeline.worker.http.metrics import make_registry, samples
from resonance.pipeline.worker.http.page_client import resume
from resonance.pipeline.worker.http.pages import ContentOfWorker, Pages, address, check_exposure
from resonance.pipeline.worker.http.status import POLL_SECONDS, WorkerStatus
from resonance.pipeline.worker.processor import Processor
from typer.testing import CliRunner

from tests.brokers.jvm import free_port

P0 = TP("in", 0)


def processor():
    return Processor(Commits(None, {"dead_letters": "dead"}, interval=1), done=print, failed=print)


def running(**app):
    made = WorkerStatus("running", assigned=(P0,), processor=processor())
    made.app = SimpleNamespace(**({"rebalancing": False, "unassigned": False, "_consumer": None} | app))
    return made


def visit(status, what, token=""):
    """Serve the pages of a status while `what(address)` runs in another thread; return what it returns."""

    async def go():
        async def let_go(partition):
            return [name for name in ("in[0]", "in[1]") if partition in (None, name)]

        registry = make_registry(lambda: samples(status, "caea"), Histograms())
        pages = Pages(ContentOfWorker(status, registry, let_go), SecretStr(token) if token else None)
        port = free_port()
        await pages.start("127.0.0.1", port)
        try:
            return await asyncio.to_thread(what, f"http://127.0.0.1:{port}")
        finally:
            await pages.stop()

    return asyncio.run(go())


def get(path, status, method="GET", body=None, headers=None):
    def ask(address):
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=5)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("Content-Type")

    return visit(status, ask)


def ready(status):
    code, body, _ = get("/readyz", status)
    shown = json.loads(body)
    assert (code == 200) == shown["ready"]
    return code, shown


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        *(("starting", "topics are being checked"), ("compiling kernels", "kernels are being loaded")),
        *(("recovering", "recovery"), ("joining", "waiting for the consumer group")),
        ("restoring", "restoring 3 partitions: 1,500 of about 20,000 records learned again"),
        ("stopping", "stopping"),
    ],
)
def test_a_worker_says_what_it_waits_for_and_is_alive_meanwhile(phase, words):
    status = WorkerStatus(phase, progress=RestoreProgress(3, 20_000, 1500))
    code, shown = ready(status)
    assert (code, shown["state"], shown["records"]) == (503, phase, 0)
    assert words in shown["problems"][0]
    assert get("/livez", status)[0] == 200
    assert b"resonance_ready 0.0" in get("/metrics", status)[1]


def test_the_pages_are_listed():
    code, body, _ = get("/", running())
    pages = json.loads(body)["pages"]
    assert (code, *pages) == (200, "GET /livez", "GET /readyz", "POST /dlq/resume", "GET /metrics")


def test_a_worker_with_partitions_is_ready():
    code, shown = ready(running())
    assert (code, shown["partitions"], shown["problems"]) == (200, ["in[0]"], [])


def test_a_surplus_worker_is_ready_and_one_that_joins_is_not():
    status = running(unassigned=True)
    status.assigned = ()
    assert ready(status)[0] == 200
    status.app.unassigned = False
    assert ready(status)[0] == 503
    assert ready(running(rebalancing=True))[0] == 503


@pytest.mark.parametrize(("is_away", "overdue"), [(True, ""), (False, "a commit has gone on for 11 s")])
def test_a_worker_whose_brokers_are_away_or_late_is_not_ready_and_is_left_alone(is_away, overdue):
    status = running(_consumer=SimpleNamespace(polled=None, flow_active=True, has_coordinator=not is_away, ends=dict))
    status.processor.overdue = lambda: overdue
    code, shown = ready(status)
    assert (code, shown["state"], len(shown["problems"])) == (503, "running", 1)
    assert (overdue or "no broker answers") in shown["problems"][0]
    assert get("/livez", status)[0] == 200


def test_a_failure_and_a_pause_are_reported():
    status = running()
    status.processor.pauses.paused[P0] = "in[0] is paused"
    assert ready(status)[1]["problems"] == ["in[0] is paused"]
    status.failure = ValueError("no")
    assert ready(status)[1]["problems"] == ["it ends: no"]


@pytest.mark.parametrize(("age", "flow", "code"), [(1, True, 200), (POLL_SECONDS + 1, True, 503), (999, False, 200)])
def test_a_worker_whose_fetch_loop_hangs_is_not_alive(monkeypatch, age, flow, code):
    consumer = SimpleNamespace(polled=1000.0, flow_active=flow, has_coordinator=True, ends=dict)
    monkeypatch.setattr("resonance.pipeline.worker.http.status.time.monotonic", lambda: 1000.0 + age)
    found, body, _ = get("/livez", running(_consumer=consumer))
    assert found == code
    assert bool(json.loads(body)["problems"]) == (code == 503)


def test_a_worker_whose_processor_hangs_is_not_alive(monkeypatch):
    status = running()
    monkeypatch.setattr(status.processor, "hang", lambda: "in[0]@7 has been learned for 61 s")
    code, body, _ = get("/livez", status)
    assert (code, json.loads(body)["problems"]) == (503, ["in[0]@7 has been learned for 61 s"])


def test_metrics_are_text_for_prometheus():
    code, body, content_type = get("/metrics", running())
    assert (code, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    families = {family.name: family for family in parser.text_string_to_metric_families(body.decode())}
    assert families["resonance_ready"].samples[0].value == 1
    assert families["resonance_build_info"].samples[0].labels["engine"] == "caea"


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text; version=1.", "text/plain; version=a.b", "\u00ff;;=,"]
)
def test_metrics_come_in_their_own_form_where_another_cannot_be_had(accept):
    assert visit(running(), lambda at: raw(at, f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}")) == 200


def test_a_port_that_is_taken_and_an_address_that_is_not_ours_are_refused():
    def second(address):
        async def start(host, port):
            await Pages(ContentOfWorker(WorkerStatus(), None, None)).start(host, port)

        port = int(address.rsplit(":", 1)[1])
        with pytest.raises(ConfigurationError, match=f"worker.web_port = {port}: something listens on"):
            asyncio.run(start("127.0.0.1", port))
        with pytest.raises(ConfigurationError, match=r"web_host = 192\.0\.2\.1, .*cannot listen there \(.*address"):
            asyncio.run(start("192.0.2.1", port))

    visit(WorkerStatus(), second)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        *((b"{}", 200), (b'{"partition": "in[1]"}', 200), (b'{"partition": "in[7]"}', 404)),
        *((b'{"partition": 1}', 400), (b"[", 400), (b"[]", 400), (b'{"partition": "%s"}' % (b"x" * 100_000), 413)),
    ],
)
def test_what_may_resume_a_partition(body, code):
    assert get("/dlq/resume", running(), "POST", body, {"Content-Type": "application/json"})[0] == code


def test_neither_another_type_nor_a_browser_nor_a_look_resumes_a_partition():
    assert get("/dlq/resume", running())[0] == 405
    assert get("/dlq/resume", running(), "POST", b"{}", {"Content-Type": "text/plain"})[0] == 415
    # Even under a name that was made to point here.
    headers = {"Content-Type": "application/json", "Host": "evil.example:6066", "Origin": "http://evil.example:6066"}
    assert get("/dlq/resume", running(), "POST", b"{}", headers)[0] == 403


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1:7"),
        ("0.0.0.0", "http://127.0.0.1:7"),  # noqa: S104 - only shown
        ("::1", "http://[::1]:7"),
        ("worker-1", "http://worker-1:7"),
    ],
)
def test_messages_name_an_address_that_can_be_asked(host, shown):
    assert address(host, 7) == shown


def run(*arguments):
    from resonance.pipeline.cli.main import app

    return CliRunner().invoke(app, ["dlq", "resume", *arguments])


def test_the_command_says_what_goes_on():
    shown = visit(running(), lambda address: run("--worker", address))
    assert (shown.exit_code, shown.stdout) == (0, "in[0] goes on\nin[1] goes on\n")
    shown = visit(running(), lambda address: run("--worker", address, "--partition", "in[1]", "--json"))
    assert json.loads(shown.stdout) == {"resumed": ["in[1]"]}


def test_the_command_says_why_nothing_goes_on():
    with pytest.raises(WorkerPageError, match=r"no worker answers at http://127.0.0.1:\d+ .*worker.web_port"):
        resume(f"http://127.0.0.1:{free_port()}")
    refused = visit(running(), lambda address: run("--worker", address, "--partition", "in[7]")).exception
    assert isinstance(refused, WorkerPageError)
    assert "in[7] is not paused on this worker; its page http" in str(refused)
    for wrong in ("127.0.0.1:6066", "ftp://127.0.0.1", "http://127.0.0.1:port", "http://127.0.0.1:1/readyz"):
        with pytest.raises(ConfigurationError, match="http://HOST:PORT"):
            resume(wrong)


SECRET = "correct-horse"  # noqa: S105 - the token of the tests


@pytest.mark.parametrize(("given", "code"), [(None, 401), ("Bearer wrong", 401), (f"Bearer {SECRET}", 200)])
def test_with_a_token_only_probes_are_answered_without_it(given, code):
    def ask(address):
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=5)
        found = {}
        for path in ("/livez", "/readyz", "/metrics"):
            connection.request("GET", path, headers={"Authorization": given} if given else {})
            answer = connection.getresponse()
            found[path] = answer.status
            assert SECRET.encode() not in answer.read()
        return found

    assert visit(running(), ask, SECRET) == {"/livez": 200, "/readyz": 200, "/metrics": code}


def test_the_command_that_resumes_sends_the_token_of_the_environment(monkeypatch):
    status = running()
    with pytest.raises(WorkerPageError, match=r"wants its token .*RESONANCE_WORKER__WEB_TOKEN"):
        visit(status, resume, SECRET)
    assert visit(status, lambda worker: resume(worker, "in[0]", SECRET), SECRET) == ["in[0]"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 200),
        *(({"method": "GET"}, 401), ({"path": "/dlq/resume/"}, 401), ({"body": b'{"partition": "in[1]"}'}, 401)),
        *(({"worker": f"http://{host}"}, 401) for host in ("127.0.0.1", "127.0.0.1:1", "[::1]:6066")),
        # A proxy has proved who it is.
        ({"worker": "https://workers.example"}, 200),
        *(({"late": 61}, 401), ({"late": -90}, 401), ({"late": 30}, 200), ({"token": "correct"}, 401)),
    ],
)
def test_a_signature_is_of_one_request_and_of_now(monkeypatch, change, code):
    now = page_client.time.time()

    def ask(address):
        known = {"token": SECRET, "method": "POST", "worker": address, "path": "/dlq/resume", "body": b"{}"} | change
        late = known.pop("late", 0)
        with monkeypatch.context() as patch:
            patch.setattr(page_client, "time", SimpleNamespace(time=lambda: now - late))
            headers = page_client.signed(**known)
        assert SECRET not in str(headers)
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=5)
        connection.request("POST", "/dlq/resume", b"{}", {"Content-Type": "application/json", **headers})
        return connection.getresponse().status

    assert visit(running(), ask, SECRET) == code


@pytest.mark.parametrize(
    "given",
    [
        *("", "Bearer", SECRET, f"bearer {SECRET}", "Bearer \u00ff", f"Bearer {SECRET}?"),
        *(
            f"{page_client.SCHEME} {'9' * 5000} 00",
            f"{page_client.SCHEME} 1 \u00b2",
            f"{page_client.SCHEME} -1 {'0' * 64}",
        ),
    ],
)
def test_what_is_no_token_is_refused_whatever_it_is(given):
    head = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: {given}"
    assert visit(running(), lambda at: raw(at, head), SECRET) == 401


def raw(address, head):
    """Send a request as it is written, and return the status."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(head.encode("latin-1") + b"\r\nConnection: close\r\n\r\n")
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:6066", "10.0.0.1", "127.0.0.1.evil.example", "a:b", "[", ""]
)
def test_pages_of_this_machine_answer_to_no_name_of_another(host):
    """A page of the web can give its own name the address of this machine."""

    def ask(address, more=""):
        heads = (f"GET {path} HTTP/1.1\r\nHost: {host}{more}" for path in ("/", "/livez", "/readyz", "/metrics"))
        return {raw(address, head) for head in heads}

    assert visit(running(), ask) == visit(running(), ask, SECRET) == {403}
    assert visit(running(), lambda address: ask(address, f"\r\nAuthorization: Bearer {SECRET}"), SECRET) == {200}


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:6066", "[::1]:6066", "127.0.0.2", "LOCALHOST"])
def test_pages_of_this_machine_answer_to_its_names(host):
    assert visit(running(), lambda at: raw(at, f"GET /metrics HTTP/1.1\r\nHost: {host}")) == 200


def test_a_log_in_in_the_address_of_a_worker_is_refused_unseen():
    for worker in (f"http://me:{SECRET}@127.0.0.1:1", f"http://{SECRET}@127.0.0.1", f"http://me:{SECRET}/x@127.0.0.1"):
        with pytest.raises(ConfigurationError, match=r"^--worker 127.0.0.1") as refused:
            resume(worker)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "worker-1", "192.0.2.1"])  # noqa: S104 - not bound
def test_pages_without_a_token_are_not_served_beyond_this_machine_unawares(host):
    with pytest.raises(ConfigurationError, match=r"worker.web_host = .*RESONANCE_WORKER__WEB_TOKEN.*web_open"):
        check_exposure(WorkerSection(web_host=host))
    check_exposure(WorkerSection(web_host=host, web_token=SECRET))
    check_exposure(WorkerSection(web_host=host, web_open=True))
    for own in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        check_exposure(WorkerSection(web_host=own))
