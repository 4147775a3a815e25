"""Where a root's records go on: what a partition task asks of the room that sends them to their subtrees."""

from collections.abc import Sequence
from typing import Protocol

from resonance.pipeline.records import Message
from resonance.pipeline.task.encode.origins import Origins
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel


class Downstream(Protocol):
    """Makes the messages that subtrees are sent."""

    def check_room(self, model: StreamModel) -> None:
        """Refuse a stream whose messages could be too long."""

    def send(
        self, model: StreamModel, own: Origins, fed: LearnResult, wanted: Sequence[bool], *, alone: bool, told: bool
    ) -> list[tuple[int, Message]]:
        """Return the messages that follow from rows, each with the position of the row that caused it.

        Parameters
        ----------
        model : StreamModel
            The stream's; counts what each subtree was sent.
        own : Origins
            The records of the rows.
        fed : LearnResult
            What became of the rows.
        wanted : sequence of bool
            Which of the learned rows are answered; the others were, or need not be.
        alone : bool
            `own` is the one record that caused everything, and no row is answered now.
        told : bool
            Without it the messages were sent before and are only counted.
        """
