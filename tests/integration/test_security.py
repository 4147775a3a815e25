"""A secured broker: a worker with exactly the rights that are listed works, and whatever is refused is said at once."""

import json
import re
import time

import pytest
from confluent_kafka.admin import AdminClient
from faust.types import TP
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.topics.acls import needed
from resonance.pipeline.topics.report import acl_values
from resonance.pipeline.topics.start_check import check_start
from resonance.pipeline.worker.transport import log_ends

from tests import token_server
from tests.brokers import create_topic, produce, read_topic, topic_name
from tests.brokers.secured import KEY_PASSWORD, PLAIN_PASSWORD, PLAIN_USER
from tests.integration.workers import WorkerProcess, records
from tests.pipeline.commands import run

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

PASSWORD = "of-this-test"  # noqa: S105 - on a broker that lives for a test run


class Deployment:
    """A pipeline on the secured broker, its user with the rights that `topics plan --acls` lists and no other."""

    def __init__(self, secured, how, *, allowed=True, provider=None, **settings):
        self.secured = secured
        self.provider = provider
        self.name = topic_name("shop")
        self.servers = secured.servers["CLEAR"]
        self.input = create_topic(self.servers, "input", partitions=2, client=secured.client)
        self.secret = {}
        self.user = topic_name("user")
        self.settings = {
            "name": self.name,
            "input.topics": self.input,
            "stream": "partition",
            "prepare.scale": "none",
            "broker.session_timeout": 6,
            "delivery.transaction_timeout": 10,
            "broker.librdkafka.ssl.ca.location": secured.authority,
            **getattr(self, f"_{how}")(),
            **settings,
        }
        if allowed:
            secured.allow(self.principal, self.rights())

    def _login(self, mechanism="SCRAM-SHA-512", listener="LOGIN"):
        self.secured.add_user(self.user, PASSWORD, mechanism)
        self.secret = {"sasl_password": PASSWORD}
        return self._client(listener, "SASL_SSL", sasl_mechanism=mechanism, sasl_username=self.user)

    def _client(self, listener, protocol, **properties):
        own = {"security_protocol": protocol, **properties}.items()
        kafka = {f"broker.librdkafka.{name.replace('_', '.')}": value for name, value in own}
        return {"broker.bootstrap": self.secured.servers[listener], **kafka}

    def _short(self):
        return self._login("SCRAM-SHA-256", "SHORT")

    def _plain(self):
        self.user = PLAIN_USER
        self.secret = {"sasl_password": PLAIN_PASSWORD}
        return self._client("LOGIN", "SASL_SSL", sasl_mechanism="PLAIN", sasl_username=PLAIN_USER)

    def _token(self):
        self.user = self.provider.client
        self.secret = {"sasl_oauthbearer_client_secret": self.provider.secret}
        own = {"method": "oidc", "token_endpoint_url": self.provider.url, "client_id": self.provider.client}
        tokens = {f"sasl_oauthbearer_{name}": value for name, value in own.items()}
        return self._client("TOKEN", "SASL_SSL", sasl_mechanism="OAUTHBEARER", **tokens)

    def _certificate(self):
        self.user = "worker"
        self.secret = {"ssl_key_password": KEY_PASSWORD}
        files = {"ssl_certificate_location": self.secured.certificate, "ssl_key_location": self.secured.key}
        return self._client("CERTIFICATE", "SSL", **files)

    @property
    def principal(self):
        """Whom the rights are given to."""
        return f"User:{self.user}"

    def loaded(self, **changes):
        """The settings, as the worker loads them."""
        secret = {f"broker.librdkafka.{name}": value for name, value in self.secret.items()}
        return Settings.of({**self.settings, "input.topics": [self.input], **secret, **changes})

    def rights(self, role="worker"):
        """What `topics plan --acls --json` lists for a role."""
        listed = acl_values("", self.principal, needed(self.loaded()))["acls"]
        return [right for right in listed if right["role"] == role]

    def worker(self, *arguments):
        """Start one; the password is in the environment."""
        secret = {f"RESONANCE_BROKER__LIBRDKAFKA__{name.upper()}": value for name, value in self.secret.items()}
        return WorkerProcess(self.settings, arguments=arguments, environment=secret, forked=True)

    def produce_records(self, count, first=0):
        """Append records, as the administrator."""
        produce(self.servers, self.input, records(count, 2, first=first), **self.secured.client)

    def answers(self):
        """Partition and key of each assignment."""
        read = read_topic(self.servers, f"{self.name}.assignments", client=self.secured.client)
        return [(m.partition(), json.loads(m.value())["source"]["offset"]) for m in read]


def test_a_worker_with_the_listed_rights_answers_exactly_once_and_can_be_reset(secured):
    deployment = Deployment(secured, "login")
    deployment.produce_records(100)
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health.get("records") == 100)
        assert worker.terminate() == 0
    answers = deployment.answers()
    assert len(answers) == len(set(answers)) == 100
    with deployment.worker("--reset") as worker:
        worker.wait_for(lambda health: health.get("records") == 100)
        # What was learned is not yet committed.
        worker.wait_for(lambda _: len(deployment.answers()) == 200)
        secured.forbid(deployment.principal, "topic", deployment.input, "READ")
        line = worker.last_line(69)
    assert sorted(deployment.answers()) == sorted(answers * 2)
    assert f"no right to Read topic {deployment.input}" in line
    assert f"--allow-principal {deployment.principal} --topic {deployment.input} --operation Read" in line


@pytest.mark.parametrize(("how", "mode"), [("plain", "at_least_once"), ("certificate", "exactly_once")])
def test_a_right_that_is_taken_away_ends_the_worker_that_logged_in_by_a_password_or_a_certificate(secured, how, mode):
    deployment = Deployment(secured, how, **{"delivery.mode": mode})
    deployment.produce_records(20)
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health.get("records") == 20)
        secured.forbid(deployment.principal, "topic", f"{deployment.name}.assignments", "WRITE")
        deployment.produce_records(20, first=20)
        assert f"no right to Write topic {deployment.name}.assignments" in worker.last_line(69)


def test_a_log_in_with_tokens_and_a_client_that_the_provider_no_longer_knows(secured):
    with token_server.running(topic_name("client"), PASSWORD) as provider:
        deployment = Deployment(secured, "token", provider=provider)
        deployment.produce_records(20)
        # Connections log in anew, with further tokens.
        provider.seconds = 5.0
        with deployment.worker() as worker:
            worker.wait_for(lambda health: health.get("records") == 20)
            issued = len(provider.requests)
            deployment.produce_records(20, first=20)
            worker.wait_for(lambda health: health.get("records") == 40 and len(provider.requests) > issued)
            assert worker.terminate() == 0
        assert PASSWORD not in worker.log()
        assert len(set(deployment.answers())) == len(deployment.answers()) == 40
        provider.secret = "another"  # noqa: S105
        text = refused(deployment)
    assert f"refuses the log-in of client {provider.client} with OAUTHBEARER" in text
    assert "no such client" in text
    assert "sasl.oauthbearer.* of [broker.librdkafka]" in text


@pytest.mark.nightly
def test_a_group_that_may_no_longer_be_joined(secured):
    deployment = Deployment(secured, "login")
    with deployment.worker() as worker:
        worker.ready()
        secured.forbid(deployment.principal, "group", deployment.name)
        line = worker.last_line(69)
    assert f"no right to Read group {deployment.name}" in line


@pytest.mark.nightly
def test_a_user_that_is_no_longer_known(secured):
    deployment = Deployment(secured, "short")
    with deployment.worker() as worker:
        worker.ready()
        secured.remove_user(deployment.user, "SCRAM-SHA-256")
        line = worker.last_line(69)
    assert f"refuses the log-in of user {deployment.user} with SCRAM-SHA-256" in line
    assert "sasl.password" in line


def refused(deployment, **changes):
    """What the start says."""
    settings = deployment.loaded(**changes)
    with pytest.raises(DeniedError) as caught:
        check_start(settings, librdkafka(settings), create=True)
    return str(caught.value)


@pytest.fixture(scope="module")
def ready(secured):
    """A deployment whose topics are there, with no rights."""
    deployment = Deployment(secured, "login")
    check_start(deployment.loaded(), librdkafka(deployment.loaded()), create=True)
    for right in deployment.rights():
        secured.forbid(deployment.principal, right["resource"], right["name"])
    return deployment


@pytest.fixture
def granted(ready):
    """The same with all rights, as long as the test lasts."""
    ready.secured.allow(ready.principal, ready.rights())
    yield ready
    for right in ready.rights():
        ready.secured.forbid(ready.principal, right["resource"], right["name"], required=False)


def test_the_ends_of_the_input_and_what_begins_there_need_its_rights_alone(ready):
    ready.secured.allow(ready.principal, [right for right in ready.rights() if right["name"] == ready.input])
    produce(ready.servers, ready.input, [(0, None, b"{}")], **ready.secured.client)
    client, place = librdkafka(ready.loaded()), TP(ready.input, 0)
    (end,) = log_ends.query(AdminClient(client), [place]).values()
    assert end.high == end.stable > 0
    assert log_ends.open_transaction(client, place, 0).key is None
    ready.secured.forbid(ready.principal, "topic", ready.input)


def test_connections_that_are_refused_name_the_settings(ready, secured):
    for changes, shown in (
        ({"broker.librdkafka.sasl.password": "wrong"}, ["refuses the log-in of user", "sasl.password"]),
        ({"broker.librdkafka.sasl.username": "nobody"}, ["refuses the log-in of user nobody", "sasl.username"]),
        ({"broker.librdkafka.sasl.mechanism": "SCRAM-SHA-256"}, ["with SCRAM-SHA-256", "sasl.mechanism"]),
        (
            {"broker.librdkafka.ssl.ca.location": secured.stranger},
            ["issuer certificate", f"ssl.ca.location = {secured.stranger}"],
        ),
        ({"broker.bootstrap": secured.servers["STRANGER"]}, ["not valid for '127.0.0.1'", "broker.bootstrap"]),
        (
            {"broker.bootstrap": secured.servers["CERTIFICATE"], "broker.librdkafka.security.protocol": "SSL"},
            ["a client's certificate, which is not set", "broker.librdkafka.ssl.certificate.location"],
        ),
    ):
        text = refused(ready, **changes)
        assert all(part in text for part in shown), text


def test_each_right_that_is_missing_is_named_before_the_group_is_joined(granted, secured):
    topic = granted.loaded().topic
    for resource, name, operation in (
        ("topic", granted.input, "Read"),
        ("topic", topic("assignments"), "Write"),
        ("topic", topic("snapshots"), "Read"),
        ("group", granted.name, "Read"),
        ("transactional-id", f"{granted.name}-", "Write"),
    ):
        secured.forbid(granted.principal, resource, name, operation.upper())
        text = refused(granted)
        assert re.search(rf"no right to .*{operation}.* {resource.replace('-', ' ')} {name}", text), text
        assert f"--allow-principal {granted.principal} --{resource} {name} " in text
        right = {"resource": resource, "name": name, "operations": [operation]}
        secured.allow(granted.principal, [right | {"pattern": "prefixed" if name.endswith("-") else "literal"}])
    check_start(granted.loaded(), librdkafka(granted.loaded()), create=True)


def test_a_reader_does_not_wait_for_what_is_refused(ready, secured):
    """A minute of patience is for brokers that are busy."""
    client = librdkafka(ready.loaded())
    began = time.monotonic()
    with LogReader(client, ready.name, 60) as reader, pytest.raises(DeniedError, match="no right to Read group"):
        reader.committed([(ready.input, 0)])
    with LogReader(client, ready.name, 60) as reader, pytest.raises(BrokerError, match="right to Describe topic"):
        reader.bounds([(ready.input, 0)])
    describe = {"resource": "topic", "name": ready.input, "operations": ["Describe"], "pattern": "literal"}
    secured.allow(ready.principal, [describe])
    with LogReader(client, ready.name, 60) as reader, pytest.raises(DeniedError, match="no right to Read topic"):
        list(reader.read({(ready.input, 0): (0, 1)}))
    wrong = {**client, "sasl.password": "wrong"}
    with LogReader(wrong, ready.name, 60) as reader, pytest.raises(DeniedError, match=r"sasl\.password"):
        reader.bounds([(ready.input, 0)])
    assert time.monotonic() - began < 30


def command(deployment, monkeypatch, capsys, role, *arguments):
    """Run a command as a user with the rights of a role, and no other; return exit code, results and messages."""
    user = topic_name(role.replace(" ", "-"))
    deployment.secured.add_user(user, PASSWORD)
    if role != "nobody":
        deployment.secured.allow(f"User:{user}", deployment.rights(role))
    monkeypatch.setenv("RESONANCE_BROKER__LIBRDKAFKA__SASL_PASSWORD", PASSWORD)
    given = {**deployment.settings, "broker.librdkafka.sasl.username": user}
    options = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    return run(monkeypatch, *arguments, *options), *capsys.readouterr()


def test_the_rights_of_each_role_are_enough_for_its_commands(ready, monkeypatch, capsys, tmp_path):
    file = tmp_path / "records.csv"
    file.write_text("a,b\n1,2\n3,4\n")
    for role, arguments in (
        ("producer", ["produce", str(file)]),
        ("subscriber", ["watch", "--until-end"]),
        ("dead letters", ["dlq", "list"]),
        ("operator", ["snapshots", "list"]),
        ("operator", ["topics", "plan"]),
    ):
        code, out, err = command(ready, monkeypatch, capsys, role, *arguments)
        assert code == 0 or "there are no snapshots" in err, (arguments, out, err)
        assert "no right to" not in err
        assert "cannot be read" not in err


def test_a_command_without_rights_names_the_one_that_is_missing(ready, monkeypatch, capsys, tmp_path):
    file = tmp_path / "records.csv"
    file.write_text("a,b\n1,2\n")
    for arguments in (["produce", str(file)], ["watch", "--until-end"], ["dlq", "list"], ["inspect"], ["reset"]):
        code, out, err = command(ready, monkeypatch, capsys, "nobody", *arguments)
        assert (code, out) == (69, "")
        assert "no right to Describe topic" in err, err
        assert "kafka-acls.sh" in err
