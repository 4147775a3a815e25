"""A whole verification: whether the recorded outputs are those of a replay."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.forward.published import check_published
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.kafka.positions import EARLIEST, Span
from resonance.pipeline.replay.jobs import Report, run_jobs
from resonance.pipeline.replay.opening import open_ranges
from resonance.pipeline.verify.differences import OutputDifference
from resonance.pipeline.verify.partition_verify import Verified, verify_partition


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a verification, with one part for each partition."""

    parts: Sequence[Verified]
    seconds: float
    """Working time of the slowest process."""
    inputs: Sequence[str]
    """The input topics."""
    published: int | None = None
    """Incidents in their topic; None where they are not compared."""
    incidents: Sequence[str] = ()
    """Keys of those that are not as the outputs show them."""

    @property
    def identical(self) -> bool:
        """Whether all compared outputs are identical."""
        return not self.incidents and all(part.difference is None for part in self.parts)

    @property
    def records(self) -> int:
        """Records of the input topics in the range; their routes do not count again."""
        return sum(part.records for part in self.parts if part.topic in self.inputs)

    def total(self, name: str) -> int:
        """Return the sum of a count over the partitions."""
        return sum(int(getattr(part, name)) for part in self.parts)

    def differences(self) -> list[tuple[str, OutputDifference]]:
        """Return the first difference of each partition that has one, with its input topic."""
        return [(part.topic, part.difference) for part in self.parts if part.difference is not None]

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as a JSON object."""
        names = (
            "assignments",
            "events",
            "dead_letters",
            "drift_events",
            "alerts",
            "routes",
            "repeats",
            "older",
        )
        return {
            "identical": self.identical,
            "records": self.records,
            **{name: self.total(name) for name in names},
            "incidents": self.published,
            "incidents_that_differ": list(self.incidents),
            "seconds": round(self.seconds, 3),
            "partitions": [asdict(part) for part in self.parts],
        }


def verify(
    settings: Settings,
    span: Span,
    *,
    fresh: bool = False,
    processes: int = 1,
    report: Report = lambda _: None,
) -> Verdict:
    """Compare the recorded outputs of a deployment with a replay, up to its committed offsets.

    Raises `ConfigurationError` where the partition does not exist, `BrokerError` where the broker does not answer, or
    nothing of the range was recorded or can be compared, and `MismatchError` where the models at the start of the range
    cannot be recovered.
    """
    # Outputs may have been recorded under another value: the replay has all attributes that they can have.
    settings = Settings.of({**settings.model_dump(), "output.envelope": "cloudevents"})
    where = f"{', '.join(settings.input.topics)} on {settings.broker.bootstrap}"
    whole = span.begin == EARLIEST and span.last is None
    with open_ranges(settings, settings.logs, span, fresh=fresh) as (reader, ranges):
        committed = reader.committed([part.at for part in ranges])
        if all(offset == NO_OFFSET for offset in committed.values()):
            raise BrokerError(
                f"group {settings.group} has committed nothing of {where}: there is nothing to verify; look at name, "
                "or run a worker first"
            )
        if all(part.begin >= min(part.end, committed[part.at]) for part in ranges):
            raise BrokerError(
                f"{where}: no record of that range is committed by group {settings.group}; choose another one"
            )
        incidents = check_published(settings, reader) if whole else (None, [])
    jobs = [partial(verify_partition, part, whole=whole) for part in ranges]
    verdict = Verdict(*run_jobs(settings, jobs, processes, report), settings.input.topics, *incidents)
    if not any(part.compared for part in verdict.parts):
        notes = "; ".join(f"{part.topic}[{part.partition}]: {note}" for part in verdict.parts for note in part.notes)
        raise BrokerError(f"{where}: nothing of that range can be compared ({notes}); choose another one")
    return verdict
