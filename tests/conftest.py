"""One real broker for the whole run, and the rule what happens without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import NoBrokerError, required, running_broker
from tests.brokers.sharing import shared


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a folder that all processes of this run share: with ``-n`` each has its own temporary folder below it."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@pytest.fixture(scope="session")
def broker(run_folder: Path) -> Iterator[str]:
    """Bootstrap servers of a real Apache Kafka; started by the first test that asks, stopped at the end of the run."""
    try:
        with shared(run_folder, "broker", running_broker) as bootstrap:
            yield bootstrap
    except NoBrokerError as reason:
        if required():
            pytest.fail(f"REQUIRE_BROKER is set, and there is {reason}", pytrace=False)
        pytest.skip(str(reason))
