"""A second check of a deployment's topics, before models are restored: the input may have gained partitions."""

import logging
import threading
import time
from typing import Final

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka.log_reader import RestoreCancelledError
from resonance.pipeline.topics.start_check import check_start
from resonance.pipeline.topics.topics import read_logs

LOOK_SECONDS: Final = 2.0
"""Pause between two checks, while topics do not fit or brokers do not answer."""

_log = logging.getLogger(__name__)


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
