"""A subscriber to the outputs of a deployment: the program that a downstream team would write, ready-made.

It needs confluent-kafka and nothing of the pipeline.
"""

import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from resonance.schemas.cluster_names import ClusterNames, PresentName
from resonance.schemas.cluster_table import ClusterTable, EventGapError
from resonance.schemas.output_reader import COMPACTED, END_SECONDS, Output, OutputConsumer, OutputKind, OutputReader

UNKNOWN: Final = 100_000
"""Clusters of which it is remembered that nothing is known."""

_log = logging.getLogger(__name__)


class Subscriber(OutputConsumer):
    """Reads the outputs of a deployment, each once, and keeps the table of its clusters.

    The consumer group remembers where it stopped: an output counts as done when the next one is taken, and is
    committed within five seconds or by `close`. After a crash of this program the last outputs come again.

    `table` is read from the compacted topic of the clusters. It knows all streams, whichever partitions this member of
    the group has, and is at least as new as the last output that was returned. So it needs no history, and the events
    that came while the program was down are still returned.

    A message that no worker wrote is left out, with a warning that has its place, and counted: `foreign`.

    Parameters
    ----------
    client : mapping or str
        librdkafka's configuration of the connection, or only its ``bootstrap.servers``. It may override the defaults,
        such as ``auto.offset.reset``: ``"earliest"``, where a new group begins.
    name : str
        Name of the deployment.
    group : str
        Consumer group of this program.
    kinds : sequence of str
        Which outputs to read; by default the events of the clusters.
    topics : mapping of str to str, optional
        Names of topics that are not ``<name>.<kind>``; the one of the table has kind ``"clusters"``, the one of the
        names ``"names"``.

    Raises
    ------
    ValueError
        A kind of output does not exist.
    KafkaException
        The cluster refuses the log-in or a right, here or while reading.

    Examples
    --------
    >>> with Subscriber("localhost:9092", "checkout", "pager") as subscriber:  # doctest: +SKIP
    ...     for event in subscriber:
    ...         print(event.value["kind"], event.value["cluster"])
    """

    _known = tuple(kind for kind in OutputConsumer._known if kind not in COMPACTED)

    def __init__(
        self,
        client: Mapping[str, Any] | str,
        name: str,
        group: str,
        kinds: Sequence[OutputKind] = ("cluster-events",),
        *,
        topics: Mapping[str, str] | None = None,
    ) -> None:
        given = {"bootstrap.servers": client} if isinstance(client, str) else dict(client)
        settings = {**given, "group.id": group}
        super().__init__(settings, name, kinds, topics)
        self._of_all = settings, name, topics
        # Outputs that the table does not have yet, and those that may be returned.
        self._fetched: deque[Output] = deque()
        self._ready: deque[Output] = deque()
        # Clusters that nothing is known of, and whether the table was read to its end since the last outputs came.
        self._unknown: dict[str, None] = {}
        self._is_newest = False
        self._clusters = _Clusters(OutputReader(settings, name, ["clusters"], topics=topics))
        self._clusters.read_to_end()
        self._names: ClusterNames | None = None
        self._of_names: OutputReader | None = None
        self._consumer.subscribe(list(self._kinds))

    @property
    def table(self) -> ClusterTable:
        """The present clusters of all streams, and what became of those that ended."""
        return self._clusters.table

    @property
    def foreign(self) -> int:
        """Messages that were left out because no worker wrote them."""
        return self._foreign + self._clusters.reader.foreign

    @property
    def names(self) -> ClusterNames:
        """What people call the clusters, over a table of their lives.

        The topics of the names and of the events are read whole at the first use, and followed from then on.
        """
        if self._names is None:
            settings, name, topics = self._of_all
            reader = OutputReader(settings, name, ["names", "cluster-events"], topics=topics, loads=json.loads)
            names = ClusterNames()
            for output in reader.to_end():
                _take_name(names, output)
            self._of_names, self._names = reader, names
        return self._names

    def __iter__(self) -> Iterator[Output]:
        """Yield outputs without end, those of one partition in order; each is done when the next is taken."""
        while True:
            if not self._ready:
                self._read(1.0)
            if self._ready:
                output = self._ready.popleft()
                yield output
                self._store([output])

    def poll(self, timeout: float = 1.0) -> list[Output]:
        """Return the next outputs after at most `timeout` seconds; `done` tells which of them may be committed."""
        if not self._ready:
            self._read(timeout)
        outputs = list(self._ready)
        self._ready.clear()
        return outputs

    def done(self, outputs: Sequence[Output]) -> None:
        """Let outputs of `poll` be committed."""
        self._store(outputs)

    def resolve(self, cluster: str) -> str | None:
        """Return what a cluster is now: itself, the cluster that absorbed it, or None where it is gone.

        Gone are those, too, that ended longer ago than the deployment remembers (``output.clusters_grace``).
        """
        with suppress(KeyError):
            return self.table.resolve(cluster)
        if not self._is_newest and cluster not in self._unknown:
            # An assignment may be here before its cluster.
            self._clusters.read_to_end()
            self._is_newest = True
            with suppress(KeyError):
                return self.table.resolve(cluster)
        if len(self._unknown) >= UNKNOWN:
            self._unknown.clear()
        self._unknown[cluster] = None
        return None

    def name(self, cluster: str) -> PresentName:
        """Return what people call a cluster, or what it is now; else its keywords, or an empty `PresentName`."""
        now = self.resolve(cluster) or cluster
        return self.names.of(now) or PresentName(", ".join(self.table.keywords(now)) or None)

    def close(self) -> None:
        """Commit what is done and leave the group."""
        self._clusters.reader.close()
        if self._of_names is not None:
            self._of_names.close()
        super().close()

    def _read(self, timeout: float) -> None:
        """Add the next outputs to those that are ready; a failure comes once those before it are taken."""
        if not self._fetched:
            self._is_newest = False
            self._fetched.extend(self._fetch(timeout))
        self._clusters.read()
        for each in () if self._of_names is None else self._of_names.poll(0.0):
            _take_name(self.names, each)
        # Of all gaps together: a program has to poll again in time, however many streams have one.
        end = time.monotonic() + END_SECONDS
        while self._fetched:
            output = self._fetched[0]
            if output.kind != "cluster-events" or self._clusters.apply(output.value, end):
                self._ready.append(output)
            else:
                self._leave_out(output.topic, output.partition, output.offset)
            self._fetched.popleft()

    def _store(self, outputs: Sequence[Output]) -> None:
        newest = {(output.topic, output.partition): output.offset + 1 for output in outputs}
        try:
            self._consumer.store_offsets(offsets=[TopicPartition(*at, offset) for at, offset in newest.items()])
        except KafkaException as error:
            # The partition went to another member, which reads the output again.
            if error.args[0].code() != KafkaError._STATE:
                raise


def _take_name(names: ClusterNames, output: Output) -> None:
    if output.kind == "names":
        names.apply(output.key, output.value)
    else:
        names.table.apply(output.value)


class _Clusters:
    """The compacted topic of the clusters, folded into a table."""

    def __init__(self, reader: OutputReader) -> None:
        self.reader = reader
        self.table = ClusterTable.from_clusters([])
        # Streams and subtrees of which events are missing: these are not waited for again, until one fits.
        self._gaps: set[tuple[str, int | None]] = set()

    def read(self, timeout: float = 0.0) -> None:
        """Take in what is there."""
        self._take(self.reader.poll(timeout))

    def read_to_end(self) -> None:
        """Take in everything up to where the topic ends now."""
        self._take(self.reader.to_end())

    def _take(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            try:
                self.table.apply_cluster(output.key or b"", output.value)
            except (AttributeError, KeyError, TypeError, ValueError):
                self.reader._leave_out(output.topic, output.partition, output.offset)

    def apply(self, event: Mapping[str, Any], end: float) -> bool:
        """Apply an event, which may be here before the clusters that it changed, or behind events of another member.

        What it misses is waited for until `end`. Return False where it is none.
        """
        while True:
            try:
                at = event["stream"], event.get("subtree")
                if self.table.apply(event):
                    self._gaps.discard(at)
                return True
            except EventGapError as gap:
                if at in self._gaps:
                    return True
                if time.monotonic() > end:
                    _log.warning("%s; the table has no more of this stream than its clusters' own topic", gap)
                    self._gaps.add(at)
                    return True
                self.read_to_end()
                self.read(0.1)
            except (AttributeError, KeyError, TypeError, ValueError):
                return False
