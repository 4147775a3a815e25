"""Exactly once: outputs, snapshots and offsets in one transaction, fenced by the consumer group's generation.

One client of confluent-kafka holds the group's membership, another one the transactions. They meet in the group
metadata (`Membership.metadata`): with it the broker refuses the offsets of a worker that no longer owns its
partitions, and with them the whole transaction.

A request that was repeated because its answer did not come may reach the broker a second time, after the transaction
that it belongs to: a late EndTxn would end the next one in its middle. A producer with such a request in its past is
therefore closed, and a new one fences whatever its requests still bring (KIP-890 describes the fault). Where the broker
lost the end of what the new one aborted (`open_transactions`), it aborts once more.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from faust.types import TP
from resonance.pipeline.crash_points import reach
from resonance.pipeline.errors import BrokerError, DeliveryError, ResonanceError
from resonance.pipeline.kafka.errors import reason_of
from resonance.pipeline.kafka.producer import ABORT_SECONDS, LOOK_SECONDS, Batch, Outlet, reach_during_commit
from resonance.pipeline.worker.delivery.open_transactions import LeftOpen
from resonance.pipeline.worker.delivery.transaction_errors import TransactionErrors
from resonance.pipeline.worker.transport.chunk import Membership
from resonance.pipeline.worker.transport.rebalance import of_no_member
from resonance.pipeline.worker.watchdog import Deadline, Watchdog

RETRY_SECONDS = 0.1

START_SECONDS = 30.0
"""Time that the broker has to answer at the start."""

GRACE_SECONDS = 5.0
"""Time behind the end of a transaction's time after which a call that has not returned hangs."""

OFFSETS_SECONDS = 10.0
"""Time for the offsets of a transaction before all of it is sent again. The client waits for a coordinator that moves
or loads within this call alone; after a broken connection the call may never return (librdkafka 5456, 5511)."""

STEPS = {
    "init_transactions": "the producer",
    "begin_transaction": "the beginning",
    "send_offsets_to_transaction": "the offsets",
    "commit_transaction": "the commit",
}
"""The calls of a transaction's producer, as messages name them."""

RETRY = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 200}
"""While the broker completes a transaction it refuses the next one's first requests for a moment. librdkafka retries
after 100 ms by default: successive commits took 105 ms each, not 10 (measured)."""

PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._DESTROY_BROKER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
"""Errors that pass: once brokers and coordinators are where they should be, or with a new producer where the broker has
forgotten this one (transactional.id.expiration.ms, producer.id.expiration.ms)."""

_log = logging.getLogger(__name__)


class ExactlyOnce:
    """Delivery by transactions, which the broker aborts after `timeout` seconds; calls are repeated for as long.

    The id is unique among the workers of the deployment, and the same after a restart. `find_open` returns what
    transactions have left open in the outputs and of the group's offsets. Outputs of an open transaction are kept to be
    sent again up to `kept_bytes`; one that is larger fails instead.
    """

    atomic = True

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        group: str,
        transactional_id: str,
        timeout: float = 60.0,
        find_open: Callable[[], LeftOpen] = lambda: LeftOpen([], []),
        kept_bytes: int = 64_000_000,
    ) -> None:
        self._kept_bytes = kept_bytes
        self._find_open = find_open
        self._group = group
        self._id = transactional_id
        self._errors = TransactionErrors(settings, group, transactional_id, timeout)
        self._timeout = timeout
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": round(timeout * 1000)}
        # Lost connections are known from the log alone.
        self._settings = {**RETRY, **settings, **own, "log_level": 6, "log.connection.close": True}
        self._outlet = Outlet(self._settings, timeout, reports=False)
        self._calls = Watchdog()
        self._deadline = Deadline(self._calls, f"transactional id {transactional_id}: ")
        self._metadata = b""
        self._member_id = ""
        self._began = 0.0
        self._hung = False
        # What the open transaction has sent, until it is too much to keep.
        self._sent: list[Batch] = []
        self.size = 0
        self.open = False

    def start(self) -> None:
        """Fence an earlier worker of the same id and end its transaction.

        Later calls do nothing as long as no connection was lost: a broker that began again answers with old offsets
        until a new producer has written there.

        Raises `BrokerError` where the broker does not answer or has no transactions for this id, `DeniedError` where
        the cluster refuses the log-in or a right.
        """
        if self._began:
            self._outlet.look()
            if self._outlet.doubtful:
                self._began = time.monotonic()
                self._replace_producer()
            return
        self._deadline.start()
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                left = max(end - time.monotonic(), RETRY_SECONDS)
                with self._watched("init_transactions", left):
                    self._outlet.producer.init_transactions(min(left, LOOK_SECONDS))
            except KafkaException as error:
                problem = error.args[0]
                if denied := self._errors.denied(self._outlet, problem):
                    raise denied from error
                if problem.retriable() and time.monotonic() < end:
                    time.sleep(RETRY_SECONDS)
                    continue
                if denied := self._errors.denied(self._outlet, problem, at_once=True):
                    raise denied from error
                raise BrokerError(
                    f"the broker does not begin transactions for {self._id} ({problem.str()}); check the rights of the "
                    "user on this transactional id and delivery.transaction_timeout; streams that are not re-keyed can "
                    'do without transactions: delivery.mode = "at_least_once"'
                ) from error
            break
        self._began = time.monotonic()
        self._abort_again()

    def bind(self, membership: Membership) -> None:
        """Set the group membership of all transactions to come.

        Raises `DeliveryError` for a membership that Kafka would accept without fencing, or while a transaction of
        another membership is open.
        """
        if not membership.fenced:
            raise DeliveryError(
                f"group {self._group}: this worker is no member (generation {membership.generation}, member id "
                f"{membership.member_id!r}), and Kafka would accept its offsets unfenced; start again"
            )
        if self.open:
            raise DeliveryError(f"group {self._group}: a transaction was left open over a rebalance; start again")
        if self._member_id not in ("", membership.member_id):
            # The group had dropped this worker: another one may have begun a producer with its id (`gone_workers`).
            self._outlet.doubtful = True
        self._member_id = membership.member_id
        self._metadata = membership.metadata

    def send(self, batch: Batch) -> None:
        """Add outputs to the transaction, beginning one where none is open.

        Raises `DeliveryError` or `FencedError` where the transaction cannot be completed.
        """
        self._begin()
        self._errors.topics.add((batch.topic, "Write"))
        self.size += batch.size
        # Kept to be sent again, as long as there is room.
        self._sent.append(batch)
        if self.size > self._kept_bytes:
            self._sent.clear()
        try:
            self._outlet.send(batch)
        except KafkaException as error:
            problem = error.args[0]
            # Of an output before this one, such as where the broker has forgotten the producer.
            has_failed = problem.code() == KafkaError._STATE and self._outlet.fatal_error() is None
            if not has_failed or self._errors.denied(self._outlet, problem) or not self._send_again():
                raise self._failed("an output", problem) from error
        reach("after-produce")

    def settle(self) -> None:
        """Do nothing: everything in a transaction counts together or not at all."""

    def commit(self, offsets: Mapping[TP, int], notes: Mapping[TP, str]) -> None:
        """Commit the transaction.

        Raises `DeliveryError` or `FencedError` where it was not committed, or where that is unknown.
        """
        self._begin()
        self._errors.topics |= {(tp.topic, "Read") for tp in offsets}
        positions = [
            TopicPartition(tp.topic, tp.partition, offset, notes.get(tp, "")) for tp, offset in offsets.items()
        ]
        with suppress(KafkaException):  # the next call reports what has failed
            self._outlet.wait_for_quota(self._began + self._timeout - OFFSETS_SECONDS)
        self._repeat(
            "send_offsets_to_transaction",
            lambda left: self._offsets(positions, self._metadata, left),
            OFFSETS_SECONDS,
            self._send_again,
        )
        reach("after-offsets")
        reach_during_commit(self._outlet.producer, self._timeout)
        self._repeat("commit_transaction", self._outlet.producer.commit_transaction)
        self._close_transaction()

    def _close_transaction(self) -> None:
        self.open = False
        self._sent.clear()
        self.size = 0

    def _offsets(self, positions: list[TopicPartition], metadata: bytes, seconds: float) -> None:
        """Add the offsets, in a thread of their own: the call may never return."""
        outlet, ended = self._outlet, Future[None]()

        def call() -> None:
            try:
                outlet.producer.send_offsets_to_transaction(positions, metadata, seconds)
                ended.set_result(None)
            except BaseException as error:
                ended.set_exception(error)

        threading.Thread(target=call, name="offsets", daemon=True).start()
        end = time.monotonic() + seconds + RETRY_SECONDS
        while time.monotonic() < end:
            with suppress(TimeoutError):
                return ended.result(min(LOOK_SECONDS, seconds))
            if denied := outlet.denied():
                raise denied
            if outlet.is_late():
                end = min(time.monotonic() + seconds, self._began + self._timeout) + RETRY_SECONDS
        # No other call is possible on this producer; its thread closes it should it ever return.
        self._hung = True
        ended.add_done_callback(lambda _: _close(outlet))
        raise KafkaException(
            KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:.0f} s", txn_requires_abort=True)
        )

    def _send_again(self) -> bool:
        """Send the open transaction again over a new producer, whose beginning aborts it; return whether it was kept.

        Only before the first request of its end: until then it cannot have been committed.
        """
        if self.size > self._kept_bytes:
            return False
        self._replace_producer()
        self._begin_transaction()
        for batch in self._sent:
            try:
                self._outlet.send(batch)
            except KafkaException as error:
                raise self._failed("an output", error.args[0]) from error
        return True

    def abort(self) -> None:
        """Abort the open transaction if the broker still allows it."""
        if not self.open:
            return
        self._close_transaction()
        try:
            with self._watched("abort_transaction", ABORT_SECONDS):
                self._outlet.producer.abort_transaction(ABORT_SECONDS)
        except KafkaException as error:
            self._outlet.doubtful = True
            _log.debug("not aborted: %s", reason_of(error))

    def _begin(self) -> None:
        if self.open:
            return
        if not self._metadata:
            raise DeliveryError(f"group {self._group}: nothing can be written before partitions are assigned")
        self._began = time.monotonic()
        self._outlet.look()
        if self._outlet.doubtful:
            self._replace_producer()
        self._begin_transaction()
        self.open = True
        reach("after-begin")

    def _begin_transaction(self) -> None:
        self._repeat("begin_transaction", lambda _: self._outlet.producer.begin_transaction())

    def _replace_producer(self) -> None:
        """Continue with a new producer, whose epoch fences every request of the one before it."""
        while True:
            _log.debug("transactional id %s: a new producer fences what may still be on its way", self._id)
            if not self._hung:
                # In a thread of its own: where a transaction is open, it waits for brokers without end.
                threading.Thread(target=_close, args=(self._outlet,), name="close", daemon=True).start()
            self._hung = False
            self._outlet = Outlet(self._settings, self._timeout, reports=False)
            self._repeat("init_transactions", self._outlet.producer.init_transactions)
            # However long that took: it has nothing on its way yet that could end a transaction.
            self._outlet.doubtful = False
            self._abort_again()
            self._outlet.look()
            # The end of what it has just aborted could come a second time, as any other.
            if not self._outlet.doubtful:
                return

    def _abort_again(self) -> None:
        """Abort a transaction of this producer: of all outputs that have one open, and of the group's offsets.

        Its markers end what the beginning of this producer aborted and got no marker for, and nothing of others. The
        group's coordinator, which writes one in any case, answers with the newest offsets from then on.
        """
        left = self._find_open()
        if not left.partitions and not left.offsets:
            return
        producer, end = self._outlet.producer, time.monotonic() + self._timeout
        self._begin_transaction()
        try:
            for place in left.partitions:
                # Compacted topics take no record without a key.
                producer.produce(place.topic, key=b"", partition=place.partition)
            while producer.flush(LOOK_SECONDS) and time.monotonic() < end:
                self._outlet.look()
            if left.offsets:
                # They will not count, so that they need no membership to be fenced by.
                anyone = of_no_member(self._group)
                # A partition without an offset: any one will do.
                places = [
                    TopicPartition(place.topic, place.partition, max(place.offset, 0), place.metadata or "")
                    for place in left.offsets
                ]
                with self._watched("send_offsets_to_transaction", OFFSETS_SECONDS):
                    self._offsets(places, anyone, OFFSETS_SECONDS)
            left_over = max(end - time.monotonic(), ABORT_SECONDS)
            with self._watched("abort_transaction", left_over):
                producer.abort_transaction(left_over)
        except KafkaException as error:
            raise self._failed("the end of an aborted transaction", error.args[0]) from error

    def _watched(self, call: str, seconds: float) -> AbstractContextManager[None]:
        """Return the deadline of a call that gives up by itself after `seconds`."""
        return self._calls.around(f"{call} has not returned", seconds + GRACE_SECONDS)

    def _repeat(
        self,
        call: str,
        do: Callable[[float], object],
        at_most: float = LOOK_SECONDS,
        start_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Repeat a call of `at_most` seconds until it succeeds, fails for good, or the broker gives the transaction up.

        A call that timed out may have succeeded; repeating it is librdkafka's way to find out. `start_over` may save a
        transaction that can only be aborted.
        """
        what, end = STEPS[call], self._began + self._timeout
        while True:
            left = max(end - time.monotonic(), RETRY_SECONDS)
            try:
                with self._watched(call, left):
                    do(min(left, at_most))
            except KafkaException as error:
                self._outlet.doubtful = True
                problem = error.args[0]
                if denied := self._errors.denied(self._outlet, problem):
                    raise denied from error
                passing = (problem.retriable() or problem.code() in PASSING) and time.monotonic() < end
                if passing and (not problem.txn_requires_abort() or start_over()):
                    _log.warning(
                        "%s of the transaction: %s%s; trying again", what, problem.str(), self._outlet.throttled
                    )
                    time.sleep(RETRY_SECONDS)
                    continue
                raise self._failed(what, problem) from error
            return

    def _failed(self, what: str, problem: KafkaError) -> ResonanceError:
        return self._errors.failed(self._outlet, what, problem, self._began)


def _close(outlet: Outlet) -> None:
    """Close a producer that is used no more; its transaction is fenced, whether it can be aborted or not."""
    try:
        outlet.producer.close()
    except KafkaException as error:
        _log.debug("not closed: %s", reason_of(error))
