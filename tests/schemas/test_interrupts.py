"""Ctrl-C in the middle of a delivery callback is Ctrl-C, and who ignores it goes on."""

import os
import signal
import sys

import pytest
from confluent_kafka import Producer
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.schemas.interrupts import interruptible

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals to oneself")


@pytest.fixture
def handlers():
    """Put the handlers back that the test began with."""
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


@pytest.mark.parametrize("wait", ["flush", "poll"])
def test_an_interrupt_within_a_delivery_callback_is_no_system_error(handlers, wait):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with EmbeddedBroker(["t"]) as broker:
        producer = Producer(broker.client_settings())
        with interruptible():
            producer.produce("t", b"x", on_delivery=lambda *_: os.kill(os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                getattr(producer, wait)(10)
        producer.close()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_only_requests_that_are_asked_for_interrupt(handlers):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible(requests=True):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_who_ignores_ctrl_c_goes_on_doing_so(handlers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible(requests=True):
        os.kill(os.getpid(), signal.SIGINT)
