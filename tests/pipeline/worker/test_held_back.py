"""A transaction that stays open on the input is a warning, with its place, its first record and what to do."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from faust.types import TP
from resonance.pipeline.worker.held_back import HeldBack
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.transport.log_ends import LogEnd, OpenTransaction

P0, P1 = TP("in", 0), TP("in", 1)


class Input:
    """The ends of the input's partitions, a clock, and what is logged."""

    def __init__(self, caplog):
        caplog.set_level(logging.INFO)
        self.log, self.now, self.ends = caplog, 0.0, {}
        self.requested, self.transaction = [], OpenTransaction(1_767_225_600_000, b"cart-7", (("source", b"shop-1"),))
        self.status = WorkerStatus("running")
        consumer = SimpleNamespace(ends=lambda: self.ends, open_transaction=self.open_transaction)
        self.status.app = SimpleNamespace(_consumer=consumer)
        self.held_back = HeldBack(self.status, "kafka:9092", clock=lambda: self.now)

    async def open_transaction(self, tp, offset):
        self.requested.append((tp, offset))
        return self.transaction

    def after(self, seconds, *ends):
        """Let time pass; the partitions' logs end there then. Return what was logged."""
        self.now, self.ends = self.now + seconds, dict(zip((P0, P1), ends, strict=False))
        self.log.clear()
        asyncio.run(self.held_back.look())
        return [record.getMessage() for record in self.log.records]


@pytest.fixture
def input_(caplog):
    return Input(caplog)


def test_it_is_said_once_with_place_producer_and_remedy(input_):
    held = LogEnd(1_000, 4_001)
    assert [input_.after(0, held), input_.after(9, held), input_.status.held_back] == [[], [], {}]
    (said,) = input_.after(2, held)
    tool = "kafka-transactions.sh --bootstrap-server kafka:9092"
    shown = (
        "in[0]@1000: 3,001 records cannot be read before a transaction ends that has been open for 11 s; "
        f"{tool} describe-producers --topic in --partition 0 shows its producer id and {tool} list the "
        "transactional.id; let its program commit or abort it, or stop that program: the broker aborts it after its "
        f"transaction.timeout.ms, or at once with {tool} abort --topic in --partition 0 --start-offset 1000"
    )
    assert said == f"{shown}; its first record: 2026-01-01T00:00:00.000Z, key cart-7, header source: shop-1"
    # Anybody may read this page, and keys are the senders'.
    assert input_.status.held_back[P0].warning == shown
    assert input_.after(60, held._replace(high=5_001)) == []
    assert "4,001 records" in input_.status.held_back[P0].warning
    assert "open for 71 s" in input_.status.held_back[P0].warning
    assert input_.status.held_back[P0].since == 0
    assert input_.requested == [(P0, 1_000)]
    assert input_.after(1, LogEnd(5_002, 5_002)) == ["in[0]@1000: the transaction has ended that was open for 72 s"]
    assert input_.status.held_back == {}


def test_what_a_sender_wrote_is_shown_in_part_and_obeyed_by_no_terminal():
    said = str(OpenTransaction(-1, b"\x1b[2J\xff" + bytes(500), ((f"h\n{'i' * 200}", None),) * 200))
    assert said.startswith(r"its first record: an unknown time, key \x1b[2J\xff\x00")
    assert said.count(r"\x00") == 95
    assert said.count(rf"header h\n{'i' * 98}: ") == 10
    assert len(said) < 3_000
    assert str(OpenTransaction(0, None, ())) == "its first record: 1970-01-01T00:00:00.000Z, no key"


def test_transactions_that_end_are_none_of_it(input_):
    for second in range(60):
        assert input_.after(1, LogEnd(10 * second, 10 * second + 9)) == []
    # The log ends with the marker of the last one.
    assert [input_.after(1, LogEnd(600, 600)) for _ in range(30)] == [[]] * 30
    assert input_.requested == []


def test_a_program_whose_transactions_take_a_minute_is_no_flood(input_):
    said = [input_.after(5, LogEnd(second // 60, 1_000)) for second in range(0, 1_200, 5)]
    assert sum("cannot be read" in line for lines in said for line in lines) == 2


def test_many_partitions_are_one_line(input_):
    input_.transaction = None
    both = LogEnd(3, 9), LogEnd(4, 9)
    input_.after(0, *both)
    (said,) = input_.after(11, *both)
    assert said.endswith("--start-offset 3; its first record cannot be read now (and 1 more, see /readyz)")
    assert input_.requested == [(P0, 3)]
    assert list(input_.status.held_back) == [P0, P1]


def test_what_is_not_assigned_any_more_is_forgotten(input_):
    held = LogEnd(1_000, 4_001)
    input_.after(0, held)
    input_.after(11, held)
    input_.status.phase = "joining"
    assert (input_.after(1, held), input_.status.held_back) == ([], {})
