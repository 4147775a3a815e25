"""Real brokers, one of each kind for the whole run, and the rule what happens without one."""

from contextlib import contextmanager

import pytest

from tests.brokers import NoBrokerError, required, running_broker
from tests.brokers.proxy import proxied_broker
from tests.brokers.secured import Secured
from tests.brokers.secured import running as running_secured
from tests.brokers.sharing import shared


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, request):
    """Return a folder that all processes of this run share: with ``-n`` each has its own temporary folder below it."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@pytest.fixture(scope="session")
def broker(run_folder):
    """Bootstrap servers of a real Apache Kafka; started by the first test that asks, stopped at the end of the run."""
    with or_skipped(shared(run_folder, "broker", running_broker)) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def secured(run_folder):
    """Return a broker with TLS, log-ins and ACLs; started by the first test that asks."""
    with or_skipped(shared(run_folder, "secured", running_secured)) as text:
        yield Secured.parse(text)


@pytest.fixture(scope="session")
def proxied():
    """Return the address of a broker and a proxy in front of it that loses requests, for this process alone."""
    with or_skipped(proxied_broker()) as both:
        yield both


@contextmanager
def or_skipped(started):
    """Skip the tests that want a broker where there is none, unless that is a failure."""
    try:
        with started as given:
            yield given
    except NoBrokerError as reason:
        if required():
            pytest.fail(f"REQUIRE_BROKER is set, and there is {reason}", pytrace=False)
        pytest.skip(str(reason))
