"""A worker: one process that owns some of the input's partitions, from its first check to its last log line."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from faust.types import TP
from resonance.pipeline import logs
from resonance.pipeline.checkpoint.archive_writer import archive_writers
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import RestoreProgress, restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka import clients, embedded
from resonance.pipeline.kafka.log_reader import RestoreCancelledError
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.records import OUTPUT_KINDS
from resonance.pipeline.repartition.placing import Placing
from resonance.pipeline.tasks import Task, make_task
from resonance.pipeline.worker.absent_paths import AbsentPaths
from resonance.pipeline.worker.assignment import AssignedPartition, Histograms, unchanged
from resonance.pipeline.worker.before_joining import check_deployment, look_again
from resonance.pipeline.worker.commits import Commits, broker_seconds
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker
from resonance.pipeline.worker.delivery.delivery import Delivery, end_others, make_delivery
from resonance.pipeline.worker.delivery.gone_workers import END_SECONDS
from resonance.pipeline.worker.http.assignments import RecordAssignments
from resonance.pipeline.worker.http.metrics import make_registry, samples
from resonance.pipeline.worker.http.pages import ContentOfWorker, Pages, address, check_exposure
from resonance.pipeline.worker.http.status import WorkerStatus, named
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.progress import report
from resonance.pipeline.worker.shutdown import STOP_SECONDS, Ending, explain_end, leave
from resonance.pipeline.worker.topic_watch import TopicWatch
from resonance.pipeline.worker.transport.app import WorkerApp, make_app
from resonance.pipeline.worker.transport.chunk import Chunk, Membership
from resonance.pipeline.worker.transport.client import FETCH_WAIT_MS, ROUND_SECONDS, TransportOptions

_log = logging.getLogger(__name__)


def run(settings: Settings, recovery: str = "", label: str = "") -> int:
    """Run a worker until it is stopped or fails, log the reason last, and return the process's exit code.

    `recovery` is one of the commands that a startup mismatch names, carried out before the worker joins its group.
    Lines of the log have the `label`, if any. Threads of the client libraries may outlive the call after a failure: the
    process should end.
    """
    logs.configure(settings.worker.log_level, settings.worker.log_format, label)
    collect_rarely()
    try:
        why = asyncio.new_event_loop().run_until_complete(Worker(settings, recovery).run())
    except Exception as error:
        return explain_end(error)
    _log.info("the worker ends: %s", why)
    return 0


class Worker:
    """Runs a Faust app and a processor, and lets neither outlive the other.

    `recovery` is the recovery to carry out first (`mismatches`), none by default.
    """

    def __init__(self, settings: Settings, recovery: str = "") -> None:
        self._settings = settings
        self._recovery = recovery
        self._status = WorkerStatus()
        self._histograms = Histograms()
        self._failure: BaseException | None = None
        self._stop_requested = asyncio.Event()
        self._why = ""
        self._rebalances = 0
        self._absent = AbsentPaths(settings)
        self._cancelled = threading.Event()
        self._positions: tuple[Membership, dict[TP, int]] | None = None
        # What this worker had before the rebalance that goes on.
        self._kept: dict[TP, AssignedPartition] = {}
        self._ending = Ending(self._status)
        self._was_recovering = False
        self._starting_delivery = threading.Lock()
        self._ending_others: asyncio.Future[None] | None = None
        self._app: WorkerApp
        self._processor: Processor
        self._delivery: Delivery
        self._source: DeploymentContext
        self._watch: TopicWatch
        self._memory: MemoryBudget

    async def run(self) -> str:
        """Run to the end and return its reason; raise `ResonanceError` where the worker cannot start or continue."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop, signal.Signals(number).name)
        registry = make_registry(partial(samples, self._status, self._settings.engine.name), self._histograms)
        worker = self._settings.worker
        check_exposure(worker)
        content = ContentOfWorker(self._status, registry, self._resume)
        pages = Pages(content, worker.web_token, RecordAssignments(self._settings, self._status))
        # Before anything else: a second worker on this host and port must fail before it fences the first.
        await pages.start(worker.web_host, worker.web_port)
        try:
            return await self._work()
        finally:
            await pages.stop()

    async def _work(self) -> str:
        deployment = await self._checked()
        if deployment is None:
            return self._why
        self._build(deployment)
        starting = asyncio.ensure_future(self._app.start())
        starting.add_done_callback(self._started)
        self._processor.start()
        self._watch.start()
        progress = asyncio.ensure_future(report(self._status, self._settings))
        await self._stop_requested.wait()
        progress.cancel()
        if self._failure is None:
            await self._end()
        if self._failure is not None:
            if not self._ending.gave_up:
                await asyncio.to_thread(self._processor.give_up, self._failure)
            await leave(self._app)
            # A stop has no time for another look at the topics.
            raise self._failure if self._why else await asyncio.to_thread(self._watch.explained, self._failure)
        return self._why

    async def _checked(self) -> Deployment | None:
        """Return what the check finds; None as soon as a stop is requested, which a compilation would not notice."""
        checking = asyncio.ensure_future(asyncio.to_thread(self._check))
        requested = asyncio.ensure_future(self._stop_requested.wait())
        await asyncio.wait((checking, requested), return_when=asyncio.FIRST_COMPLETED)
        if requested.done() and self._was_recovering:
            # The recovery ends at its next look at `_cancelled`, and then aborts what is open.
            await asyncio.wait((checking,), timeout=STOP_SECONDS)
        if checking.done():
            found = checking.result()
            return None if self._stop_requested.is_set() else found
        # Its error no longer matters.
        checking.cancel()
        return None

    def _check(self) -> Deployment:
        checked = check_deployment(self._settings, self._status, self._recovery, self._cancelled)
        self._source, self._memory = checked
        return self._source.deployment

    def _build(self, deployment: Deployment) -> None:
        settings = self._settings
        pauses = DeadLetterBreaker(
            settings.topic("dead_letters"),
            max_share=settings.dlq.max_share,
            address=address(settings.worker.web_host, settings.worker.web_port),
        )
        options = TransportOptions(
            before_revoke=self._before_revoke,
            positions=self._positions_for,
            failed=self._fail,
            client=clients.librdkafka(settings),
            group=settings.group,
            partitions="-".join(map(str, deployment.counts.values())),
            paused=pauses.paused.copy,
            fetch_wait_ms=embedded.FETCH_WAIT_MS if deployment.embedded else FETCH_WAIT_MS,
            gather_seconds=min(settings.delivery.commit_interval, ROUND_SECONDS[settings.delivery.mode]),
            session_seconds=settings.broker.session_timeout,
            revoke_seconds=broker_seconds(settings.delivery.transaction_timeout),
            answer_timeout=settings.broker.answer_timeout,
            memory=self._memory,
            # All but the routes, which are last.
            in_time_order=settings.logs[:-1] if settings.is_rekeyed else (),
        )
        self._watch = TopicWatch.of(lambda: self._source, self._fail)
        self._app = make_app(settings, self, options)
        self._delivery = make_delivery(settings, deployment, self._app.consumer.commit_positions, self._memory)
        commits = Commits(
            self._delivery,
            {kind: settings.topic(kind) for kind in (*OUTPUT_KINDS, "snapshots")},
            interval=settings.delivery.commit_interval,
            histograms=self._histograms,
            patience=settings.delivery.transaction_timeout,
            check_topics=partial(self._watch.wait, settings.delivery.transaction_timeout),
            ahead_bytes=self._memory.kept,
            commit_bytes=self._memory.kept // 4,
        )
        self._processor = Processor(commits, done=self._app.consumer.done, failed=self._fail, pauses=pauses)
        self._status.app, self._status.processor = self._app, self._processor

    # Called by Faust and by the transport, in the event loop.

    async def consume(self, stream: Any) -> None:
        """Submit the chunks of an input topic to the processor."""
        consumer = self._app.consumer
        async for event in stream.noack().events():
            chunk: Chunk = event.message
            if consumer.is_current(chunk):
                self._absent.look(chunk.topic, chunk.value)
                self._processor.submit(chunk)
            else:
                consumer.done(chunk)

    async def restore(self, app: Any, **kwargs: Any) -> None:
        """Restore the models of the assigned partitions and open the processor with them."""
        try:
            await self._restore(self._app.consumer.membership)
        except RestoreCancelledError:
            _log.info("another rebalance began, its restore replaces this one")
        except asyncio.CancelledError:
            # Faust stops, or another rebalance began: no partition was handed over, and the threads end by themselves.
            self._cancelled.set()
            raise
        except BaseException as error:  # an exception would end Faust silently
            self._fail(error)

    async def _restore(self, membership: Membership | None) -> None:
        rebalance = self._rebalances
        # Before the first await: a revoke meanwhile must cancel this restore, not an earlier one.
        self._cancelled = cancelled = threading.Event()
        if membership is None or not membership.partitions:
            self._kept = {}
            # Of topics that are gone no partition is assigned either.
            await asyncio.to_thread(self._watch.wait, self._source.patience)
            # Topics that no broker describes yet bring another rebalance once one does.
            if rebalance == self._rebalances and not self._app.consumer.missing_topics:
                _log.info("no partition is assigned: the group has more workers than the input has partitions")
                self._status.enter("running")
            return
        listed = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(membership.partitions))
        _log.info("assigned: %s (generation %d)", listed, membership.generation)
        began = time.monotonic()
        self._status.progress = progress = RestoreProgress(len(membership.partitions))
        self._status.enter("restoring")
        # It ends the transaction that an earlier worker of this id left open, for which the restore would wait. Only
        # now: this process holds the HTTP port, so that no worker beside it uses the same id.
        await asyncio.to_thread(self._start_delivery, rebalance)
        assigned = sorted(membership.partitions)
        # Beside the restore: most of the time there is nothing to end.
        self._ending_others = asyncio.ensure_future(
            asyncio.to_thread(end_others, self._settings, self._source.deployment, assigned, cancelled)
        )
        source = await asyncio.to_thread(look_again, self._source, cancelled)
        if rebalance != self._rebalances:
            raise RestoreCancelledError
        # Others would only take memory.
        self._kept = {
            tp: part for tp, part in self._kept.items() if tp in membership.partitions and source is self._source
        }
        self._source = source
        self._status.placing = Placing(self._settings, source.deployment.partitions, source.deployment.routes)
        kept = await asyncio.to_thread(unchanged, source, self._kept, assigned, cancelled)
        # The others are restored: twice in memory they would be too much.
        self._kept = {TP(*at): part for at, part in kept.items()}
        if kept:
            _log.info("%d partitions go on with the models in memory: nothing was committed elsewhere", len(kept))
        lost, make_task = [at for at in assigned if at not in kept], partial(self._make_task, source)
        restored = await asyncio.to_thread(restore_partitions, source, lost, make_task, cancelled, progress)
        interval = self._settings.snapshots.archive_interval
        writers = {at: part.writer for at, part in restored.items()}
        archives = await asyncio.to_thread(archive_writers, source, writers, interval, cancelled)
        member = await self._app.consumer.is_member(membership)
        if not member or rebalance != self._rebalances or cancelled.is_set() or self._stop_requested.is_set():
            # A changed membership brings a rebalance and so another restore; a stopping worker has closed already.
            raise RestoreCancelledError
        partitions = {TP(*at): kept.get(at) or AssignedPartition.of(restored[at], archives.get(at)) for at in assigned}
        own = (self._settings.transactional_id, f"{membership.generation} {membership.member_id}")
        for partition in partitions.values():
            partition.begin(*own if self._delivery.atomic else ("", ""))
        self._positions = membership, {tp: partition.position for tp, partition in partitions.items()}
        await asyncio.wrap_future(self._processor.open(membership, partitions))
        self._kept = {}
        self._status.recovery_seconds = time.monotonic() - began
        self._status.recovery_records = sum(part.replayed for part in restored.values())
        self._status.assigned = tuple(partitions)
        self._status.enter("running")
        _log.info(
            "processing from %s", ", ".join(f"{tp.topic}[{tp.partition}]@{p.position}" for tp, p in partitions.items())
        )

    def _start_delivery(self, rebalance: int) -> None:
        # A cancelled restore leaves its thread behind, and the next restore starts at once.
        with self._starting_delivery:
            if rebalance != self._rebalances:
                raise RestoreCancelledError
            self._delivery.start()
        if rebalance != self._rebalances:
            raise RestoreCancelledError

    def _make_task(self, source: DeploymentContext, topic: str, partition: int) -> Task:
        return make_task(self._settings, topic, partition, source.task_context)

    async def _before_revoke(self, lost: bool) -> None:
        self._rebalances += 1
        self._positions = None
        self._status.assigned = ()
        self._status.enter("joining")
        self._status.rebalances = self._rebalances
        self._cancelled.set()
        held = self._processor.partitions
        await self._close(lost=lost)
        if self._failure is None and not lost:
            self._kept |= held
        if self._ending_others is not None:
            # A worker whose transactions it ends may begin its own only afterwards, as a member beside this one.
            await asyncio.wait([self._ending_others], timeout=END_SECONDS)

    async def before_stop(self) -> None:
        """Close the last transaction, with a snapshot of every stream that changed, and leave the group."""
        self._positions = None
        self._status.assigned = ()
        self._cancelled.set()
        self._app.consumer.stop_flow()
        await self._close(everything=True)
        self._ending.closed()
        # Faust would leave it last: until then the partitions would have no owner that works.
        await leave(self._app)

    async def _close(self, *, everything: bool = False, lost: bool = False) -> None:
        try:
            await asyncio.wrap_future(self._processor.close(everything=everything, lost=lost))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # it ends the worker; Faust, the caller, need not fail as well
            self._note_failure(error)

    def _positions_for(self, membership: Membership) -> Mapping[TP, int]:
        if self._positions is None or self._positions[0] != membership:
            return {}
        return self._positions[1]

    async def _resume(self, partition: str | None) -> list[str]:
        """Resume paused partitions: the one of that name, those of that number, or all; return their names."""
        if self._status.processor is None:
            return []
        paused = sorted(self._processor.pauses.paused.copy())
        chosen = [tp for tp in paused if partition in (None, named(tp), str(tp.partition))]
        await asyncio.wrap_future(self._processor.resume(chosen))
        return [named(tp) for tp in chosen]

    # Called from any thread.

    def _fail(self, error: BaseException) -> None:
        self._loop.call_soon_threadsafe(self._note_failure, error)

    # Shutdown.

    def _note_failure(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = self._status.failure = error
            self._stop_requested.set()

    def _stop(self, why: str) -> None:
        self._why = why
        self._was_recovering = self._status.phase == "recovering"
        self._status.phase = "stopping"
        self._cancelled.set()
        self._stop_requested.set()

    def _started(self, starting: "asyncio.Future[None]") -> None:
        if not starting.cancelled() and (error := starting.exception()) is not None:
            self._note_failure(error)

    async def _end(self) -> None:
        """Stop Faust, whose consumer first closes the open transaction."""
        _log.info("stopping: %s", self._why)
        if (error := await self._ending.stop(self._app)) is not None:
            self._note_failure(error)
        await asyncio.sleep(0)
        if self._failure is None:
            await asyncio.to_thread(self._processor.stop)
