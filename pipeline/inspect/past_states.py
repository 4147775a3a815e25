"""The states of a deployment at a moment in the past, for those who look at it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from resonance.pipeline.checkpoint.archive_reader import Archives, archive_name
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.inspect.listing import StoredPartition
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.positions import Position, offsets_of

EARLIER: Final = "choose a later time, or see the events: resonance watch --kind events --from earliest"


def states_at(
    source: DeploymentContext, reader: LogReader, states: Sequence[StoredPartition], place: Position, text: str
) -> list[StoredPartition]:
    """Return the newest state of each partition at or before a place, as if the group stood there.

    `states` are the present ones, which are taken where nothing of them is later; else it is the newest archive.
    Raises `MismatchError`, with the time of the oldest archive, where no state is that early.

    Parameters
    ----------
    text : str
        How the user named the place.
    """
    bounds = reader.bounds([state.at for state in states])
    # With a time, the offset behind the last record of that time.
    wanted = offsets_of(place if place.time is None else Position(time=place.time + 1), bounds, reader.offsets_at)
    tables = read_tables(reader, source, range(source.deployment.state_partitions))
    found, too_early = [], list[str]()
    for state in states:
        offset = min(wanted[state.at], state.committed)
        if state.checkpoint is None or state.committed == NO_OFFSET:
            found.append(replace(state, checkpoint=None))
        elif max([state.checkpoint.record.position, *(one.next for one in state.streams)]) <= offset:
            found.append(replace(state, committed=offset))
        else:
            archives = Archives(reader, source, state.at, tables[state.at[1]].archives(state.at[0]).entries)
            archived = archives.newest(offset)
            if archived is not None:
                entry = next(entry for entry in archives.entries if entry.position == archived.position)
                written = dict.fromkeys((one.stream for one in archived.streams), entry.written)
                found.append(StoredPartition(state.at, archived, offset, written))
            else:
                found.append(replace(state, checkpoint=None))
                too_early.append(f"{state.at[0]}[{state.at[1]}] has {_oldest(archives)}")
    if too_early and all(state.checkpoint is None for state in found):
        raise MismatchError(
            f"--at {text}: topic {source.archive} has no archive from so early; {too_early[0]}; {EARLIER}"
        )
    return found


def _oldest(archives: Archives) -> str:
    archived = next((found for entry in archives.entries if (found := archives.read(entry)) is not None), None)
    if archived is None:
        return "none (snapshots.archive_interval, and the retention of that topic)"
    return f"{archive_name(archived)} as its oldest"
