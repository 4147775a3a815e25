"""What transactions have left open is not known of a topic that the cluster does not show, and the right is named."""

from types import SimpleNamespace

import pytest
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.worker.delivery import open_transactions


@pytest.mark.parametrize(("written", "read", "right"), [(["out"], [], "Write"), ([], ["in"], "Read")])
def test_a_topic_that_is_hidden_is_named_with_its_right(monkeypatch, written, read, right):
    nothing = SimpleNamespace(topics={})
    admin = SimpleNamespace(list_topics=lambda **_: nothing)
    monkeypatch.setattr(open_transactions, "new_client", lambda *_: admin)
    client = {"bootstrap.servers": "kafka:9092", "sasl.username": "ann"}
    with pytest.raises(BrokerError, match=f"no right to {right} topic {(written + read)[0]}"):
        open_transactions.left_open(client, written, "shop", read, 0.0)
