"""What stands among the routes, where transactions of killed workers may still be open."""

from collections.abc import Mapping

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader, OffsetRange
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.repartition.envelope import read_route


def settled_routes(reader: LogReader, source: DeploymentContext) -> dict[TopicPartition, OffsetRange]:
    """Return where each partition of the routes begins and ends, once no transaction is open before its end.

    Raises `BrokerError` where one stays open: committed routes behind it become readable later.
    """
    places = [at for at in source.logs if at[0] == source.routes]
    if not places:
        return {}
    marks = reader.high_watermarks(places)
    bounds = reader.settled_bounds(places, source.patience)
    for at, (_, end) in bounds.items():
        if end < marks[at]:
            raise BrokerError(
                f"{at[0]}[{at[1]}]: a transaction at offset {end:,} did not end within {source.patience:.0f} s, and "
                f"what stands behind it, up to offset {marks[at]:,}, cannot be read before; try again later, or abort "
                "it by `kafka-transactions.sh abort`"
            )
    return bounds


def check_not_routed(
    reader: LogReader,
    source: DeploymentContext,
    positions: Mapping[TopicPartition, int],
    tables: Mapping[int, ChangelogTable],
    imported: Mapping[int, PartitionRecord] | None = None,
) -> None:
    """Raise `MismatchError` where records would be routed, and learned, twice if inputs go on at given positions.

    The `positions` are where inputs go on whose offset is lost; without any, nothing is read. Routes from before the
    models of a partition began, by what is stored of it in `tables`, or by the `imported` record in its place, are not
    counted.
    """
    lost = {at: position for at, position in positions.items() if source.settings.is_rekeyed and at[0] != source.routes}
    if not lost:
        return
    ranges = {}
    for at, (first, end) in settled_routes(reader, source).items():
        record = (imported or {}).get(at[1]) or tables[at[1]].records().get(source.routes)
        began = record.began if record is not None and source.is_same_log(record.identity) else NO_OFFSET
        ranges[at] = max(first, began), end
    newest: dict[TopicPartition, int] = {}
    for _, records in reader.read(ranges):
        for route in filter(None, map(read_route, records)):
            at = route.topic, route.partition
            newest[at] = max(newest.get(at, NO_OFFSET), route.source_offset)
    for at, position in lost.items():
        if newest.get(at, NO_OFFSET) >= position:
            raise mismatches.routed_beyond(*at, newest[at], position)
