"""A deployment in memory: topics that are lists, and workers of one hop or two in a few lines."""

from functools import partial

import pytest
from resonance.pipeline.checkpoint import archive_writer
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import OffsetMetadata, is_reproducible
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.cli import file_settings  # noqa: F401 - loaded first below, it would keep those settings for ever
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka import log_reader
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Message, Outputs
from resonance.pipeline.recovery import entry, rewrite
from resonance.pipeline.recovery.models import tasks_of
from resonance.pipeline.replay import bootstrapping, opening
from resonance.pipeline.verify import verify as verifying
from resonance.pipeline.watch import naming  # noqa: F401 - and this that reader

from tests.pipeline.logs import MemoryReader
from tests.pipeline.repartition.two_hops import ROUTES, inputs
from tests.pipeline.streams import STAMP, TOPIC, points, settings, value_of

EMITTED = ("assignments", "cluster_events", "dead_letters", "clusters", "drift_events", "alerts")
"""Kinds of output topics."""
KEYED = {
    "stream": "partition",
    "hierarchy": "keyed",
    "engine__name": "hcaea",
    "engine__lambda": 6,
    "engine__min_cluster_records": 3,
    "engine__min_child_records": 3,
    "engine__max_leaves": 25,
    "engine__max_nodes": 12,
}
"""Settings under which the roots of two streams have many subtrees."""


class MemoryDeployment(MemoryReader):
    """Topics of one deployment, and what reads and changes them; with routes `records` are those of all inputs."""

    def __init__(self, patch, partitions=1, records=600, *, routes=0, labels=0, **changed):
        super().__init__()
        self.partitions = range(partitions)
        own = {"stream": "field:country", "input__id_path": "id"} if routes else {"stream": "key"}
        self.given = settings(**{**own, **changed})
        ids = {TOPIC: "id-1", self.given.topic("routes"): "id-2", self.given.labels.topic or "": "id-3"}
        self.source = DeploymentContext.of(self.given, {}, Deployment(partitions, ids, routes=routes, labels=labels))
        self.offsets = {}
        self.written = []
        self.waited = []
        self.beside = {}
        # A change is written, but for the offsets.
        self.stopped = False
        self.members = None
        for kind in (*EMITTED, "snapshots", "archive", *(["routes"] if routes else [])):
            self.logs |= {(self.given.topic(kind), number): [] for number in range(max(partitions, routes, labels))}
        self.logs |= {(TOPIC, number): [] for number in self.partitions}
        if routes:
            for at, log in inputs(records, partitions).items():
                self.logs[at] = [record._replace(offset=i) for i, record in enumerate(log)]
        else:
            self.grow(records)
        self.serve(patch)

    def serve(self, patch):
        """Let every command find this deployment."""
        patch.setattr(DeploymentContext, "reader", lambda *_, **__: self)
        # Commands that read nothing but outputs.
        patch.setattr(log_reader, "LogReader", lambda *_, **__: self)
        patch.setattr(rewrite, "write", self.write)
        # Archives have times that grow, and are the same in every run.
        self._archived = STAMP
        patch.setattr(archive_writer, "ArchiveWriter", partial(ArchiveWriter, now=self._now))
        patch.setattr(entry, "open_source", lambda _: self.source)
        patch.setattr("resonance.pipeline.cli.options.load_settings", lambda *_, **__: self.given)
        patch.setattr(rewrite, "members_of", lambda _: self.members)
        patch.setattr("resonance.pipeline.cli.plans.alone", lambda _: self.waited.append(len(self.written)))
        patch.setattr(opening, "read_logs", lambda *_, **__: self.source.deployment)
        patch.setattr(bootstrapping, "check_start", lambda *_, **__: self.source.deployment)
        patch.setattr(bootstrapping, "wait_for_empty_group", lambda *_, **__: None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def committed_with_metadata(self, partitions):
        return {at: (offset, self.beside.get(at, "")) for at, offset in self.committed(partitions).items()}

    def commit(self, at, offset, part):
        note = OffsetMetadata(
            part.writer.identity.topic_id, is_reproducible(part.writer.began, part.task.models.first_version)
        )
        self.offsets[at], self.beside[at] = offset, note.at(offset)

    def committed(self, partitions):
        return {at: self.offsets.get(at, NO_OFFSET) for at in partitions}

    def settled_bounds(self, partitions, seconds):
        return self.bounds(list(partitions))

    def _now(self):
        self._archived += 1_000
        return self._archived / 1_000

    def grow(self, records):
        """Append records to the input."""
        for partition in self.partitions:
            begin = len(self.logs[TOPIC, partition])
            for i, row in enumerate(points(begin + records, seed=partition).tolist()[begin:], start=begin):
                message = Message(b"ab"[i % 3 % 2 :][:1], value_of(row, id=f"r{i}"), [])
                self.append((TOPIC, partition), message, timestamp=STAMP + 1_000 * i)

    def expire(self, topic, below, partition=0):
        """Delete the first records of a partition, as retention does."""
        self.logs[topic, partition] = [record for record in self.logs[topic, partition] if record.offset >= below]
        self.firsts[topic, partition] = below

    def recorded(self, kind="assignments", partition=0):
        return self.logs[self.given.topic(kind), partition]

    def replace(self, kind, place, **values):
        """Change a recorded output."""
        log = self.recorded(kind)
        log[place] = log[place]._replace(**values)

    def again(self, kind, first, end):
        """Record outputs once more, as a worker does that delivers at least once and was killed."""
        for record in self.recorded(kind)[first:end]:
            self.append((self.given.topic(kind), 0), Message(record.key, record.value, record.headers))

    def changed(self, **values):
        return settings(**{"stream": "key", **values})

    def verify(self, given=None, fresh=False, **span):
        return verifying.verify(given or self.given, Span.parse(**span), fresh=fresh)

    def take_settings(self, given):
        """Go on with other settings."""
        self.given, self.source = given, DeploymentContext.of(given, {}, self.source.deployment)

    def task(self, topic, partition):
        return tasks_of(self.source, self.given)(topic, partition)

    def restored(self, topic):
        """Every partition of a topic as a worker finds it."""
        assigned = [at for at in self.source.logs if at[0] == topic]
        with pytest.MonkeyPatch.context() as patch:
            # Though another deployment was made since.
            patch.setattr(DeploymentContext, "reader", lambda *_, **__: self)
            return restore_partitions(self.source, assigned, self.task)

    def models(self):
        """State of every stream of the second hop as a start finds it."""
        parts = self.restored(ROUTES).values()
        return {name: part.task.models.named(name).state() for part in parts for name in part.task.models.names}

    def store(self, at, outputs, **how):
        for kind in (*EMITTED, "routes"):
            for message in outputs.of(kind):
                to = at[1] if message.partition is None else message.partition
                self.append((self.given.topic(kind), to), message, **how)

    def archive(self, at, part, position, records):
        writer = ArchiveWriter(self.source.archive, at[1], part.writer, 1.0, now=self._now)
        for message in writer.messages(part.task, position, records[-1].timestamp if records else -1):
            self.append((self.source.archive, at[1]), message, timestamp=self._archived)
        self.append((self.source.snapshots, at[1]), writer.listed(), timestamp=STAMP)

    def work(self, until, *, everything=False, archive=False, snapshots=True):
        """Restore every partition of the input, process it up to an offset and commit; return the outputs.

        Without `snapshots` it is a worker's later commit, with which none is due, and then it is killed.
        """
        whole = Outputs()
        for at, part in self.restored(TOPIC).items():
            records = [record for record in self.logs[at] if part.start <= record.offset < until]
            outputs = part.task.process(records)
            whole.add(outputs)
            self.store(at, outputs)
            for message in part.writer.messages(part.task, until, until, everything=everything):
                if snapshots:
                    self.append((self.source.snapshots, at[1]), message, timestamp=STAMP + 1_000 * until)
            if archive:
                self.archive(at, part, until, records)
            self.commit(at, until, part)
        return whole

    def turn(self, share=1.0, *, everything=False, archive=False, lost=False, kept=True, only=None):
        """Process a share of what waits in each log, inputs first, commit and be killed.

        The transaction fails if it is `lost`: nothing of it is stored.
        """
        found = {}
        for topic in [only] if only else self.source.identities:
            for at, part in self.restored(topic).items():
                waiting = [record for record in self.logs[at] if record.offset >= part.start]
                records = waiting[: round(len(waiting) * share)]
                outputs = found[at] = part.task.process(records)
                if lost:
                    continue
                # Behind each a marker, so that a log ends where the next message comes.
                self.store(at, outputs, timestamp=STAMP, gap=1)
                position = records[-1].offset + 1 if records else part.start
                due = part.writer.messages(part.task, position, position, everything=everything) if kept else ()
                for message in due:
                    self.append((self.source.snapshots, at[1]), message, timestamp=STAMP)
                if archive and records:
                    self.archive(at, part, position, records)
                self.commit(at, position, part)
        return found

    def write(self, source, changed):
        """Do what `changes.write` does."""
        for change in changed:
            for message in change.archive:
                self.append((source.archive, change.at[1]), message, timestamp=self._archived)
            for message in change.messages:
                self.append((source.snapshots, change.at[1]), message)
            for message in change.clusters:
                to = change.at[1] if message.partition is None else message.partition
                self.append((source.settings.topic("clusters"), to), message)
            for batch in change.outputs:
                for message in batch.messages:
                    to = batch.partition if message.partition is None else message.partition
                    self.append((batch.topic, to), message)
            if self.stopped:
                raise BrokerError("stopped before the offsets")
            self.offsets[change.at], self.beside[change.at] = change.offset, rewrite.metadata_of(source, change)
        self.written += changed


def rekeyed(patch, partitions=2, routes=3, records=900, **changed):
    return MemoryDeployment(patch, partitions, records, routes=routes, **changed)


def packed(made, size=10):
    """Put so many records of the input into each message: one record is of no use, and one message."""
    for partition in made.partitions:
        log, made.logs[TOPIC, partition] = made.logs[TOPIC, partition], []
        for number, start in enumerate(range(0, len(log), size)):
            values = [record.value for record in log[start : start + size]]
            if number == 7:
                values[3] = b'{"cpu": "much"}'
            text = b"{" if number == 30 else b"[%b]" % b",".join(values)
            # Those of one message have one key.
            message = Message(b"ab"[number % 2 :][:1], text, [])
            made.append((TOPIC, partition), message, timestamp=log[start].timestamp)
    return made
