"""Startup mismatches: input log, committed offset and snapshots do not belong together.

A worker that continued would give outputs that no replay of the log gives. It stops instead and reports what does not
fit, where, and which command recovers from it. No such command runs by itself, because each gives something up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from resonance.pipeline.errors import MismatchError

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
    return f"{command} {_DONE[command].format(f'{partitions:,} partition' + 's' * (partitions > 1))}"


def _stop(problem: str, *commands: str, advice: str = "") -> MismatchError:
    """Return the error: the problem, other advice, then each command with its effect."""
    remedies = "; or ".join(f"`resonance worker {command}` ({_MEANING[command]})" for command in commands)
    before = f"{advice}, or" if advice else "To recover,"
    text = f"{problem}. {before} stop every worker of the group and start one with {remedies}"
    return MismatchError(text, commands, problem)


def truncated(topic: str, partition: int, needed: int, first: int) -> MismatchError:
    """Return the mismatch of an input whose records are deleted although the models must be rebuilt from them."""
    return _stop(
        f"{topic}[{partition}]: the log begins at offset {first}, but the models must be rebuilt from offset {needed} "
        f"on: {first - needed} offsets were deleted by the topic's retention before a snapshot covered them",
        NEW_VERSION,
        RESET,
    )


def truncated_ahead(positions: Mapping[tuple[str, int], int]) -> MismatchError:
    """Return the mismatch of an input that lost records before a running worker had read them."""
    where = ", ".join(f"{topic}[{partition}]@{offset}" for (topic, partition), offset in positions.items())
    return _stop(
        f"the input was truncated before it was read: {where} is gone. Give the topic a longer retention",
        NEW_VERSION,
        RESET,
    )


def no_snapshot(topic: str, partition: int, committed: int, why: str) -> MismatchError:
    """Return the mismatch of a committed offset without any snapshot, where the log alone does not give the models."""
    return _stop(
        f"{topic}[{partition}]: offset {committed} is committed, but the snapshots topic knows nothing of this "
        f"partition and {why}, so the models cannot be rebuilt",
        NEW_VERSION,
        RESET,
    )


def offset_missing(group: str, topic: str, partition: int, position: int) -> MismatchError:
    """Return the mismatch of a group without a committed offset although its snapshots prove that it had one."""
    return _stop(
        f"{topic}[{partition}]: group {group} has no committed offset, but its snapshots reach offset {position}: the "
        "offset has expired or was deleted, or the group was renamed",
        RESUME,
        RESET,
    )


def offset_behind(group: str, topic: str, partition: int, committed: int, proven: int) -> MismatchError:
    """Return the mismatch of a committed offset below one that the group had committed before."""
    return _stop(
        f"{topic}[{partition}]: group {group} is at offset {committed}, but its snapshots prove that it had committed "
        f"{proven}: the offset was set back",
        RESUME,
        RESET,
    )


def offset_of_others(group: str, topic: str, partition: int, committed: int, position: int) -> MismatchError:
    """Return the mismatch of a committed offset that no worker and no command of this program committed."""
    return _stop(
        f"{topic}[{partition}]: group {group} is at offset {committed}, which no worker committed, and its snapshots "
        f"reach offset {position}: another program has set the offset, and records in between may have no answer",
        RESUME,
        RESET,
    )


def routed_beyond(topic: str, partition: int, routed: int, position: int) -> MismatchError:
    """Return the mismatch of a lost offset of an input whose routes reach further than its snapshots."""
    return _stop(
        f"{topic}[{partition}]: its snapshots reach offset {position}, and its records up to {routed} stand among the "
        "routes already: they would be learned twice",
        RESET,
    )


def offset_beyond_end(group: str, topic: str, partition: int, committed: int, end: int) -> MismatchError:
    """Return the mismatch of a committed offset that the log does not reach."""
    return _stop(
        f"{topic}[{partition}]: group {group} is at offset {committed}, but the log ends at {end}: records were lost, "
        "or the offset was set too far",
        RESET,
    )


def partitions_changed(topic: str, before: int, now: int) -> MismatchError:
    """Return the mismatch of an input whose number of partitions changed, so that keys are in other partitions."""
    return _stop(
        f"input topic {topic} has {now} partitions, the snapshots were written when it had {before}: its keys are in "
        "other partitions than their models",
        NEW_VERSION,
        RESET,
    )


def routes_changed(topic: str, before: int, now: int) -> MismatchError:
    """Return the mismatch of routes whose number of partitions changed, so that streams are in other partitions."""
    return _stop(
        f"the routes {topic} have {now} partitions, the snapshots were written when they had {before}: streams are in "
        "other partitions than their models, and new models there would use the ids of clusters again",
        RESET,
    )


def stream_changed(where: str, before: str, now: str) -> MismatchError:
    """Return the mismatch of a changed `stream` setting, from or to streams that are re-keyed."""
    return _stop(
        f"{where}: the models were learned with stream = {before}, it is {now}, and none of the streams of before goes "
        "on. Set it back, or give the pipeline another name",
        RESET,
    )


def hierarchy_changed(where: str, before: str, now: str) -> MismatchError:
    """Return the mismatch of a changed `hierarchy` setting; no command recovers from it."""
    return MismatchError(
        f"{where}: the models were learned with hierarchy = {before}, it is {now}, and they do not go on in other "
        "places; set it back, or give the pipeline another name, under which it learns the topic from its beginning"
    )


def topic_made_again(topic: str, before: str, now: str) -> MismatchError:
    """Return the mismatch of an input topic that was deleted and made again: another log under the old name."""
    return _stop(
        f"input topic {topic} was deleted and made again (its id is {now}, the snapshots were written for {before}): "
        "their offsets belong to another log",
        RESET,
    )


def topic_deleted(topic: str) -> MismatchError:
    """Return the mismatch of a log that was deleted under a running worker."""
    return _stop(
        f"topic {topic} was deleted under the running worker, and a topic made again under its name is another log: "
        "create it first",
        RESET,
    )


def output_deleted(topic: str) -> MismatchError:
    """Return the mismatch of an output topic that was deleted after answers were written to it."""
    return _stop(
        f"output topic {topic} was deleted, and the outputs in it are lost although the group stands behind them",
        RESET,
        advice="Create it by `resonance topics create` and start again, which gives up what it held",
    )


def inputs_changed(snapshots: str, before: Sequence[str], now: Sequence[str]) -> MismatchError:
    """Return the mismatch of changed input topics that change the names of streams."""
    return _stop(
        f"the snapshots in {snapshots} were written for input.topics = {', '.join(before)}, now they are "
        f"{', '.join(now)}, and the same stream names would mean other streams; give the pipeline another name, "
        "or set input.topics back",
        RESET,
    )


def other_pipeline(snapshots: str, owner: str, name: str) -> MismatchError:
    """Return the mismatch of a snapshots topic that another pipeline writes."""
    return MismatchError(
        f"snapshots topic {snapshots} belongs to pipeline {owner}, this one is {name}: set topics.pattern so that "
        f"it gives a topic of its own, or name = {owner!r} if it is the same pipeline"
    )


def other_format(where: str, found: int, known: int) -> MismatchError:
    """Return the mismatch of a snapshot that another release wrote, in a format of its own."""
    return _stop(
        f"{where}: the snapshot has format {found}, this release reads format {known}: another release wrote it. Start "
        "that release again, or give the models up",
        RESET,
    )


def damaged(where: str, stream: str, offset: int, problem: str) -> MismatchError:
    """Return the mismatch of a stream whose snapshot is not whole."""
    return _stop(
        f"{where}: the snapshot of stream {stream} at offset {offset} cannot be used, because {problem}: the topic was "
        "damaged or written by another program",
        RESET,
        advice="Where there are archives, `resonance reset --to-archive TIME` goes back to one",
    )


def set_back(where: str, stream: str, later: int, earlier: int) -> MismatchError:
    """Return the mismatch of a stream whose snapshot was replaced by an earlier one."""
    return _stop(
        f"{where}: the snapshot of stream {stream} at offset {later} was replaced by one at {earlier}, of a worker "
        "that had lost the partition: with delivery.mode = at_least_once nothing keeps it from that",
        RESET,
        advice="Where there are archives, `resonance reset --to-archive TIME` goes back to one",
    )


def unreadable(where: str, what: str) -> MismatchError:
    """Return the mismatch of a record under one of the product's keys that cannot be read."""
    return _stop(f"{where}: {what} cannot be read: the topic was damaged or written by another program", RESET)


def copied(where: str, what: str, origin: str) -> MismatchError:
    """Return the mismatch of a stored record that was written for another partition, or for another log."""
    return _stop(
        f"{where}: {what} was written for {origin}: another program copied it here, perhaps from a backup, and may "
        "have replaced this partition's own",
        RESET,
    )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return one phrase for each setting that differs, by name; a list equals a tuple of the same values."""
    # In the form that Kafka returns: JSON turns tuples into lists.
    old, new = (orjson.loads(orjson.dumps(values)) for values in (before, now))
    absent = object()

    def written(value: Any) -> str:
        return "not there" if value is absent else orjson.dumps(value).decode()

    pairs = [(name, old.get(name, absent), new.get(name, absent)) for name in sorted({*old, *new})]
    return [f"{name} was {written(was)}, is {written(value)}" for name, was, value in pairs if was != value]


def settings_differ(where: str, changed: Sequence[str]) -> MismatchError:
    """Return the mismatch of settings under which the models would differ; under another engine all of its own do."""
    listed = "; ".join([each for each in changed if each.startswith("engine was ")] or changed)
    return _stop(
        f"{where}: the models were learned with other settings: {listed}",
        NEW_VERSION,
        advice="Set them back",
    )


def unclean_change(topic: str, partition: int, changed: Sequence[str], replay: int, start: int) -> MismatchError:
    """Return the mismatch of records that must be learned again under another release or other limits."""
    listed = "; ".join(changed)
    return _stop(
        f"{topic}[{partition}]: offsets {replay} to {start - 1} must be learned again and would now give other models: "
        f"{listed}",
        NEW_VERSION,
        advice="Go back to the release and the settings before, stop every worker with SIGTERM (it then snapshots "
        "everything), and change them then",
    )
