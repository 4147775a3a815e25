"""An output that its topic refuses ends the worker with what helps for this topic."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.errors import DeliveryError, DeniedError
from resonance.pipeline.kafka import producer
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message

LONG = b"x" * 2_000_000


@pytest.mark.parametrize(
    ("topic", "message", "remedy"),
    [
        ("answers", Message(b"k", b'{"id":"' + LONG, []), "copy fewer members into the answers (output.include)"),
        ("events", Message(None, b'{"kind":"' + LONG, []), "describe clusters with fewer features (input.features)"),
        ("dead", Message(None, LONG, [("r.error.stage", b"limit")]), None),
        ("states", Message(b'["chunk",', LONG, []), None),
    ],
)
def test_the_remedy_is_that_of_the_topic(topic, message, remedy):
    outlet = Outlet(producer_settings({"bootstrap.servers": "127.0.0.1:1"}), 1.0, reports=False)
    with pytest.raises(DeliveryError) as caught:
        outlet.send(Batch(topic, 3, [message]))
    text = str(caught.value)
    assert text.startswith(f"{topic}[3]: an output of 2,0")
    assert f"--entity-name {topic} --add-config max.message.bytes=200" in text
    assert ("), or " in text) == bool(remedy)
    assert remedy is None or f", or {remedy}; nothing was committed" in text


def test_a_right_that_the_producer_knows_to_be_missing_is_named():
    class Refusing:
        """The topic's metadata has said so already, before any message was sent."""

        def produce(self, *_):
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Unable to produce message"))

    outlet = Outlet(producer_settings({"bootstrap.servers": "127.0.0.1:1"}), 1.0, reports=False)
    outlet.producer = Refusing()
    with pytest.raises(DeniedError, match="no right to Write topic answers"):
        outlet.send(Batch("answers", 3, [Message(b"k", b"{}", [])]))


UP, SETUP = "(after 20ms in state UP)", "(after 0ms in state CONNECT)"


@pytest.mark.parametrize(
    ("facility", "text", "doubtful"),
    [
        ("FAIL", f"TxnCoordinator: b:1: Disconnected: connection closed by peer {UP}", True),
        ("FAIL", "b:1/1: 1 request(s) timed out: disconnect (after 20ms in state REAUTH, 2 identical)", True),
        ("FAIL", "b:1/1: a text that nobody knows", True),
        ("REQTMOUT", "b:1/1: Timed out EndTxnRequest in flight (after 9900ms, timeout #0)", True),
        ("FAIL", f"b:1/1: Connect to ipv4#127.0.0.1:1 failed: Connection refused {SETUP}", False),
        ("GETPID", "Failed to acquire transactional PID from broker TxnCoordinator/1", False),
    ],
)
def test_a_lost_connection_leaves_a_doubt_and_one_that_never_was_up_leaves_none(facility, text, doubtful):
    outlet = Outlet(producer_settings({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), 1.0, reports=False)
    # With `debug` each broker that is left out has such lines.
    outlet.log(10, "%s [%s] %s", facility, "rdkafka#producer-1", text)
    assert not outlet.doubtful
    outlet.log(20, "%s [%s] %s", facility, "rdkafka#producer-1", text)
    assert outlet.doubtful is doubtful


def test_a_quota_is_named_and_waited_for_before_a_request_that_would_stand_behind_it(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(producer, "time", clock)

    class Throttled:
        """Two messages are stored a second, where a quota holds for three."""

        waiting = 4

        def __len__(self):
            return self.waiting

        def flush(self, seconds):
            clock.now += seconds
            self.waiting -= 2

        def poll(self, _):
            return 0

    outlet = Outlet(producer_settings({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), 60.0, reports=False)
    outlet.producer = Throttled()
    outlet.wait_for_quota(clock.now + 60)
    assert (clock.now, outlet.throttled, len(outlet.producer)) == (1000.0, "", 4)
    outlet._pause(SimpleNamespace(broker_name="b:1/1", throttle_time=7.0))
    assert "b:1/1 lets this client wait 7.0 s for its quota, raise producer_byte_rate" in outlet.throttled
    assert outlet.is_late()
    outlet.wait_for_quota(clock.now + 60)
    assert (clock.now, len(outlet.producer)) == (1007.0, 0)
    outlet.is_late()
    assert not outlet.is_late()
    clock.now += producer.QUOTA_SECONDS
    assert outlet.throttled == ""
