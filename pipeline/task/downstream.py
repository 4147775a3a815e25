"""What a partition task requires of the writer that sends a root's records on to its subtrees."""

from collections.abc import Sequence
from typing import Protocol

from resonance.pipeline.records import Outputs
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel


class Downstream(Protocol):
    """Writes the messages to subtrees."""

    def check_room(self, model: StreamModel) -> None:
        """Refuse a stream whose messages could be too long.

        Raises
        ------
        ConfigurationError
            Names the settings with which the topic of the routes takes the messages.
        """

    def send(
        self, model: StreamModel, own: RecordBatch, result: LearnResult, wanted: Sequence[bool], outputs: Outputs | None
    ) -> None:
        """Write the messages that rows cause.

        Parameters
        ----------
        model : StreamModel
            The stream's model; it counts the messages sent to each subtree.
        own : RecordBatch
            The records of the rows.
        result : LearnResult
            What became of the rows.
        wanted : sequence of bool
            Which of the learned rows get their assignment now; the others have theirs already, or need none.
        outputs : Outputs, optional
            None: the messages were sent before and are only counted.
        """
