"""Startup mismatches: input log, committed offset and snapshots do not belong together.

A worker that continued would give outputs that no replay of the log gives. It stops instead and reports what does not
fit, where, and which command recovers from it. No such command runs by itself, because each gives something up.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from resonance.pipeline.errors import MismatchError, counted

RESUME: Final = "--resume-from-snapshot"
RESET: Final = "--reset"
NEW_VERSION: Final = "--new-version"

_MEANING: Final = {
    RESUME: "goes on where the snapshots end; answers given since then are given again, identical",
    RESET: "forgets models and offsets and begins anew at the start of the log: outputs are sent again with the same "
    "bytes, or, where that cannot be, with a new version of every stream, and subscribers have to drop the clusters of "
    "the old one",
    NEW_VERSION: "keeps the place in the log and begins new models there; with hierarchy = keyed there is only "
    f"{RESET}",
}


_DONE: Final = {
    RESUME: "set the offsets of {} to where the snapshots end",
    RESET: "forgot the models and offsets of {}",
    NEW_VERSION: "began new models in {}, which learn what comes from now on, not the history again; for that use "
    f"another name, or {RESET}",
}


def done(command: str, partitions: int) -> str:
    """Return what a command has done, in so many partitions."""
    if not partitions:
        return f"{command} changed nothing, because nothing needs it"
    return f"{command} {_DONE[command].format(counted(partitions, 'partition'))}"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return one phrase for each setting that differs, by name; a list equals a tuple of the same values.

    Under another engine all of its own differ, and only the engine is named.
    """
    # In the form that Kafka returns: JSON turns tuples into lists.
    old, new = (orjson.loads(orjson.dumps(values)) for values in (before, now))
    absent = object()

    def written(value: Any) -> str:
        return "not there" if value is absent else orjson.dumps(value).decode()

    pairs = [(name, old.get(name, absent), new.get(name, absent)) for name in sorted({*old, *new})]
    found = {name: f"{name} was {written(was)}, is {written(value)}" for name, was, value in pairs if was != value}
    return [found["engine"]] if "engine" in found else [*found.values()]


class Mismatch:
    """One kind of mismatch: called with what its `problem` has places for, it returns the error.

    The error names the problem, other advice, then each command with its effect.
    """

    def __init__(self, problem: str, *commands: str, advice: str = "") -> None:
        self._problem, self._commands, self._advice = problem, commands, advice

    def __call__(self, *values: object) -> MismatchError:
        """Return the error."""
        listed = ["; ".join(value) if isinstance(value, list) else value for value in values]
        problem = self._problem.format(*listed)
        if not self._commands:
            return MismatchError(problem)
        remedies = "; or ".join(f"`resonance worker {command}` ({_MEANING[command]})" for command in self._commands)
        before = f"{self._advice}, or" if self._advice else "To recover,"
        text = f"{problem}. {before} stop every worker of the group and start one with {remedies}"
        return MismatchError(text, self._commands, problem)


truncated: Final = Mismatch(
    "{}[{}]: the log begins at offset {}, but the models must be rebuilt from offset {} on: the topic's "
    "retention has deleted {} of these offsets before a snapshot covered them",
    *(NEW_VERSION, RESET),
)
truncated_ahead: Final = Mismatch(
    "the input was truncated before it was read: {}[{}]@{} is gone. Give the topic a longer retention",
    *(NEW_VERSION, RESET),
)
no_snapshot: Final = Mismatch(
    "{}[{}]: offset {} is committed, but the snapshots topic knows nothing of this partition and {}, so the models "
    "cannot be rebuilt",
    *(NEW_VERSION, RESET),
)
offset_missing: Final = Mismatch(
    "{1}[{2}]: group {0} has no committed offset, but its snapshots reach offset {3}: the offset has expired or was "
    "deleted, or the group was renamed",
    *(RESUME, RESET),
)
offset_behind: Final = Mismatch(
    "{1}[{2}]: group {0} is at offset {3}, but its snapshots prove that it had committed {4}: the offset was set back",
    *(RESUME, RESET),
)
offset_of_others: Final = Mismatch(
    "{1}[{2}]: group {0} is at offset {3}, which no worker committed, and its snapshots reach offset {4}: another "
    "program has set the offset, and records in between may have no answer",
    *(RESUME, RESET),
)
routed_beyond: Final = Mismatch(
    "{0}[{1}]: its snapshots reach offset {3}, and its records up to {2} stand among the routes already: they would be "
    "learned twice",
    RESET,
)
offset_beyond_end: Final = Mismatch(
    "{1}[{2}]: group {0} is at offset {3}, but the log ends at {4}: records were lost, or the offset was set too far",
    RESET,
)
partitions_changed: Final = Mismatch(
    "input topic {0} has {2} partitions, the snapshots were written when it had {1}: its keys are in other partitions "
    "than their models",
    *(NEW_VERSION, RESET),
)
routes_changed: Final = Mismatch(
    "the routes {0} have {2} partitions, the snapshots were written when they had {1}: streams are in other partitions "
    "than their models, and new models there would use the ids of clusters again",
    RESET,
)
stream_changed: Final = Mismatch(
    "{}: the models were learned with stream = {}, it is {}, and none of the streams of before goes on. Set it back, "
    "or give the pipeline another name",
    RESET,
)
hierarchy_changed: Final = Mismatch(
    "{}: the models were learned with hierarchy = {}, it is {}, and they do not go on in other places; set it back, or "
    "give the pipeline another name, under which it learns the topic from its beginning"
)
topic_made_again: Final = Mismatch(
    "input topic {0} was deleted and made again (its id is {2}, the snapshots were written for {1}): their offsets "
    "belong to another log",
    RESET,
)
topic_deleted: Final = Mismatch(
    "topic {} was deleted under the running worker, and a topic made again under its name is another log: create it "
    "first",
    RESET,
)
output_deleted: Final = Mismatch(
    "output topic {} was deleted, and the outputs in it are lost although the group stands behind them",
    RESET,
    advice="Create it by `resonance topics create` and start again, which gives up what it held",
)
inputs_changed: Final = Mismatch(
    "the snapshots in {} were written for input.topics = {}, now they are {}, and the same stream names would mean "
    "other streams; give the pipeline another name, or set input.topics back",
    RESET,
)
other_pipeline: Final = Mismatch(
    "snapshots topic {0} belongs to pipeline {1}, this one is {2}: set topics.pattern so that it gives a topic of its "
    "own, or name = {1!r} if it is the same pipeline"
)
other_format: Final = Mismatch(
    "{}: the snapshot has format {}, this release reads format {}: another release wrote it. Start that release again, "
    "or give the models up",
    RESET,
)
damaged: Final = Mismatch(
    "{}: the snapshot of stream {} at offset {} cannot be used, because {}: the topic was damaged or written by "
    "another program",
    RESET,
    advice="Where there are archives, `resonance reset --to-archive TIME` goes back to one",
)
set_back: Final = Mismatch(
    "{}: the snapshot of stream {} at offset {} was replaced by one at {}, of a worker that had lost the partition: "
    "with delivery.mode = at_least_once nothing keeps it from that",
    RESET,
    advice="Where there are archives, `resonance reset --to-archive TIME` goes back to one",
)
unreadable: Final = Mismatch("{}: {} cannot be read: the topic was damaged or written by another program", RESET)
copied: Final = Mismatch(
    "{}: {} was written for {}: another program copied it here, perhaps from a backup, and may have replaced this "
    "partition's own",
    RESET,
)
settings_differ: Final = Mismatch(
    "{}: the models were learned with other settings: {}", NEW_VERSION, advice="Set them back"
)
unclean_change: Final = Mismatch(
    "{0}[{1}]: offsets {3} to {4} must be learned again and would now give other models: {2}",
    NEW_VERSION,
    advice="Go back to the release and the settings before, stop every worker with SIGTERM (it then snapshots "
    "everything), and change them then",
)
