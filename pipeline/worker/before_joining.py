"""Everything that would go wrong later is found before a worker joins the group.

A worker that finds out later has taken partitions from the others, which then wait for it. The topics, which may
change later, are looked at again before each restore.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from resonance.kernels.cache import kernel_folder
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.newest_records import check_newest, newest_records
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader, RestoreCancelledError
from resonance.pipeline.kernels import compile_engine, show_while_compiling
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.recovery.recovery import recover
from resonance.pipeline.topics.kinds import Topics, always
from resonance.pipeline.topics.start_check import check_start
from resonance.pipeline.topics.topics import read_deployment, read_logs
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.progress import models_of
from resonance.pipeline.worker.transport.app import check_versions

LOOK_SECONDS: Final = 2.0
"""Pause between two checks, while topics do not fit or brokers do not answer."""

_log = logging.getLogger(__name__)


def check_deployment(
    settings: Settings, status: WorkerStatus, recovery: str, cancelled: threading.Event
) -> tuple[DeploymentContext, MemoryBudget]:
    """Return the deployment, all of it checked, after the recovery to carry out first, and the memory for its records.

    The kernels are loaded by then.
    """
    check_versions()
    # Beside the checks, which wait for the broker; the first time they are compiled, which takes half a minute.
    loader = ThreadPoolExecutor(1, "kernels")
    kernels = loader.submit(compile_engine, settings)
    loader.shutdown(wait=False)
    client = clients.librdkafka(settings)
    check_before_joining(settings, client, recovery)
    deployment = check_start(settings, client, create=settings.topics.create)
    _log.info("%s", models_of(settings, deployment.partitions))
    if settings.shadow_of is not None:
        shadow = (settings.name, settings.shadow_of, settings.shadow_of, settings.name)
        _log.info("%s is a shadow of %s: it raises no alerts; `resonance compare %s %s` compares them", *shadow)
    # Here it holds up no member.
    folder, reason = kernel_folder()
    if reason:
        _log.warning("compiled kernels are not kept in their usual folder (%s)", reason)
    _log.info("loading the kernels of %s; the first time they are compiled, into %s", settings.engine.name, folder)
    status.enter("compiling kernels")
    with show_while_compiling(settings.engine.name):
        kernels.result()
    # From here on records are read.
    memory = LogReader.memory = MemoryBudget.of(settings.limits.memory)
    source = DeploymentContext.of(settings, client, deployment)
    if recovery:
        status.enter("recovering")
        with contextlib.suppress(RestoreCancelledError):
            changed = recover(recovery, source, cancelled)
            if changed:
                _log.info("%s", mismatches.done(recovery, changed))
            check_before_joining(settings, client, "")
            if not changed:
                # Only now it is known that nothing needed it.
                _log.info("%s", mismatches.done(recovery, changed))
    status.enter("joining")
    return source, memory


def check_before_joining(settings: Settings, client: Mapping[str, Any], recovery: str) -> None:
    """Check logs, settings and outputs against the newest snapshots; nothing is changed.

    A recovery compares what it recovers from itself, and only a reset gives up outputs. Raises MismatchError where they
    do not belong together; a topic or a right that is missing is left to the check of the topics.
    """
    if recovery == mismatches.RESET:
        return
    cluster = ClusterAdmin(client, settings.broker.answer_timeout)
    topics = Topics.of(settings)
    if cluster.embedded:
        return
    try:
        # Without routes that a changed `stream` would need: a refused start makes no topics.
        source = DeploymentContext.of(settings, client, read_deployment(cluster, topics, or_unrouted=True))
        with source.reader() as reader:
            records = newest_records(reader, source)
    except BrokerError as error:
        _log.debug("nothing is compared with snapshots yet: %s", error)
        return
    if recovery != mismatches.RESUME:
        check_newest(source, records, recovery)
    if any(record.position > 0 for record in records.values()):
        there = cluster.partition_counts()
        for topic in topics.outputs:
            if topic.kind.wanted is always and topic.kind.for_subscribers and topic.name not in there:
                cluster.check_seen(topic.name)
                raise mismatches.output_deleted(topic.name)


def look_again(source: DeploymentContext, cancelled: threading.Event) -> DeploymentContext:
    """Return a deployment as it is now: records of added partitions are routed here, too, whichever worker owns them.

    Topics are changed one after the other, and brokers come and go: the check is repeated for as long as a restore
    waits for the broker. Raises `BrokerError` where all that time inputs differ, outputs have no place for what comes
    of the input, or no broker answers, and `RestoreCancelledError` once `cancelled` is set.
    """
    if source.deployment.embedded:
        return source
    end, is_logged = time.monotonic() + source.patience, False
    while True:
        try:
            return _seen(source)
        except DeniedError:
            raise
        except BrokerError as error:
            if time.monotonic() > end:
                raise
            if not is_logged:
                _log.warning("nothing is restored yet, for up to %g s, because %s", source.patience, error)
            is_logged = True
        if cancelled.wait(LOOK_SECONDS):
            raise RestoreCancelledError


def _seen(source: DeploymentContext) -> DeploymentContext:
    settings, client, known = source.settings, source.client, source.deployment
    found = read_logs(client, settings)
    if found.counts == known.counts:
        return source
    _log.info("the input has %d partitions, it had %d", found.partitions, known.partitions)
    return DeploymentContext.of(settings, client, check_start(settings, client, create=False))
