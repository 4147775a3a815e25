"""One real broker for the whole run, and the rule what happens without one."""

from collections.abc import Iterator

import pytest

from tests.brokers import NoBrokerError, required, running_broker


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """Bootstrap servers of a real Apache Kafka; started by the first test that asks, stopped at the end of the run."""
    try:
        with running_broker() as bootstrap:
            yield bootstrap
    except NoBrokerError as reason:
        if required():
            pytest.fail(f"REQUIRE_BROKER is set, and there is {reason}", pytrace=False)
        pytest.skip(str(reason))
