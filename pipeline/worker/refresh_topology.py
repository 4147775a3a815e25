"""A second look at the topics of a deployment, before models are restored: the input may have got partitions since."""

import logging
import threading
import time
from typing import Final

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka.log_reader import RestoreCancelledError
from resonance.pipeline.topics.start_check import check_start
from resonance.pipeline.topics.topics import read_logs

LOOK_SECONDS: Final = 2.0
"""Between two looks at topics that do not fit, or brokers that do not answer."""

_log = logging.getLogger(__name__)


def look_again(settings: Settings, source: DeploymentContext, cancelled: threading.Event) -> DeploymentContext:
    """Return a deployment as it is now, whoever got the partitions that were added: their records are routed here, too.

    Topics are changed one after the other, and brokers come and go: what does not fit, or does not answer, is looked at
    again for as long as a restore waits for the broker.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    source : DeploymentContext
        The deployment as it was.
    cancelled : Event
        Ends the waiting.

    Raises
    ------
    BrokerError
        All that time inputs differed, outputs had no place for what comes of the input, or no broker answered.
    RestoreCancelledError
        `cancelled` was set.
    """
    if source.deployment.embedded:
        return source
    end, told = time.monotonic() + source.patience, False
    while True:
        try:
            return _seen(settings, source)
        except DeniedError:
            raise
        except BrokerError as error:
            if time.monotonic() > end:
                raise
            if not told:
                _log.warning("nothing is restored yet, for up to %g s, because %s", source.patience, error)
            told = True
        if cancelled.wait(LOOK_SECONDS):
            raise RestoreCancelledError


def _seen(settings: Settings, source: DeploymentContext) -> DeploymentContext:
    found, known = read_logs(source.client, settings), source.deployment
    if found.counts == known.counts:
        return source
    _log.info("the input has %d partitions, it had %d", found.partitions, known.partitions)
    return DeploymentContext.of(settings, source.client, check_start(settings, source.client, create=False))
