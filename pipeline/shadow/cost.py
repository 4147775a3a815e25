"""What the models of a deployment cost: its settings learn the compared records again, with empty models."""

from resonance.pipeline.evaluate import dataset
from resonance.pipeline.evaluate.run import Run, run_candidate
from resonance.pipeline.evaluate.source import TopicSource
from resonance.pipeline.kafka.ranges import Span
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange, open_ranges
from resonance.pipeline.shadow.comparison import RecordedBoth
from resonance.pipeline.shadow.deployments import FoundDeployment


def measure(both: tuple[FoundDeployment, FoundDeployment], found: RecordedBoth, report: Report) -> list[Run]:
    """Learn the compared records with the settings of each deployment, one after the other, and return the runs."""
    return [_learn(one, found, report) for one in both]


def _learn(one: FoundDeployment, found: RecordedBoth, report: Report) -> Run:
    settings = one.settings
    ranges = [PartitionRange(settings, one.source, at, *bounds) for at, bounds in found.ranges.items()]
    if settings.labels.topic is not None:
        with open_ranges(settings, [settings.labels.topic], Span(), or_unrouted=True) as (_, late):
            ranges += late
    source = TopicSource(tuple(ranges))
    return run_candidate(settings, source, dataset.read(settings, source, None), None, report)
