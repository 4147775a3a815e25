"""Reads the output topics into a view, for as long as the page is open.

Events, drifts, alerts and clusters are read to the last record. Of assignments and dead letters, which can come faster
than a page may cost, as many of the newest are read as the budget allows; each then stands for several.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import DeniedError, ResonanceError, nearest
from resonance.pipeline.inspect.stream_outputs import stream_marker
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.page.past import MOST_PAST, StreamPast
from resonance.pipeline.page.timeline import TimelineEntry, as_json
from resonance.pipeline.page.view import DeploymentView
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.watch.named import stored_events
from resonance.pipeline.watch.outputs import DeploymentOutputs, record_of

FOLLOWED: Final[Mapping[str, str]] = {
    "clusters": "clusters",
    "cluster_events": "events",
    "drift_events": "drift",
    "alerts": "alerts",
    "names": "names",
}
"""Kinds of topics that are read whole, and what their outputs are."""

SAMPLED: Final[Mapping[str, int]] = {"assignments": 1_000, "dead_letters": 200}
"""Kinds of topics of which the newest records are read, and how many a second, in all partitions."""

SAVED: Final = 40.0
"""Seconds of this budget that can be saved up: what comes in bursts is then read whole, and a page begins with more."""

AT_ONCE: Final = 200
"""Sampled records that are read at once: as many at most are read in vain beyond the last one wanted."""

HISTORY: Final = 5_000
"""Offsets of each partition of events and drifts that are read at the start."""

QUEUE_KB: Final = 8_000
"""Records that a client reads ahead: eight times as many by its default, which a large start leaves in memory."""

POLL_SECONDS: Final = 0.2
ROUND_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at which topics there are, and until a failed read is tried again."""

DENIED_SECONDS: Final = 600.0
"""Seconds until a topic that may not be read is tried again."""

PATIENCE: Final = 10.0
"""Seconds without an answer after which a read is given up and begun again."""

PAST_SECONDS: Final = 30.0
"""How long the stored outputs of a stream count as the newest, for the next time that is looked at."""

FEW: Final = 50
"""Outputs at once up to which new clusters are described beside the others, which takes a while."""

_log = logging.getLogger(__name__)


class Follower:
    """Keeps `view` up to date from threads of its own.

    `publish` is called from them with each batch of new entries as JSON. What is wrong is in `troubles`, a sentence
    each.
    """

    def __init__(
        self, settings: Settings, client: Mapping[str, Any], publish: Callable[[Sequence[dict[str, Any]]], None]
    ) -> None:
        self.view = DeploymentView(settings.name)
        self.troubles: dict[str, str] = {}
        """By what they are about."""
        self.loaded = 0.0
        """Part of what was there at the start that has been read; 1 when the view is as of now."""
        self._settings = settings
        self._client = {**client, "queued.max.messages.kbytes": QUEUE_KB}
        self._group = f"{settings.name}-page"
        self._publish = publish
        self._past: StreamPast | None = None
        """The stored outputs of the stream whose past was shown last."""
        self._past_read: dict[TopicPartition, int] = {}
        self._past_made = 0.0
        self._past_lock = threading.Lock()
        self._stop = threading.Event()
        self._denied: dict[str, float] = {}
        self._threads = [
            threading.Thread(target=self._forever, args=(what, run), name=f"page-{what}", daemon=True)
            for what, run in (("outputs", self._follow), ("samples", self._sample))
        ]

    @contextmanager
    def locked(self) -> Iterator[DeploymentView]:
        """Hold the lock of the present view: one that is replaced meanwhile shares parts with its successor."""
        while True:
            view = self.view
            with view.lock:
                if view is self.view:
                    yield view
                    return

    def sentences(self) -> list[str]:
        """Return what is wrong, a broker that is away once."""
        troubles = self.troubles.copy()
        if "broker" in troubles:
            return [troubles["broker"]]
        if "outputs" in troubles:
            troubles.pop("samples", None)
        return list(dict.fromkeys(troubles.values()))

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _forever(self, what: str, run: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                run()
            except DeniedError as error:
                topic = next((topic for topic in self._topics(SAMPLED, FOLLOWED) if topic in str(error)), "")
                if topic:
                    # The others are shown without it.
                    self._denied[topic] = time.monotonic()
                self.troubles[topic or what] = str(error)
            except ResonanceError as error:
                self.troubles[what] = str(error)
            except Exception as error:  # a page that goes on with what it has is better than none
                _log.exception("the page's %s", what)
                self.troubles[what] = f"{what}: {error!r}"
            self._stop.wait(LOOK_SECONDS / 5)

    def _topics(self, *kinds: Mapping[str, Any]) -> dict[str, str]:
        return {self._settings.topic(kind): kind for some in kinds for kind in some}

    def _partitions(self, cluster: ClusterAdmin, kinds: Mapping[str, Any]) -> dict[TopicPartition, str]:
        """Return the partitions of the topics that exist and can be read, each with its kind."""
        counts = cluster.partition_counts()
        found: dict[TopicPartition, str] = {}
        for topic, kind in self._topics(kinds).items():
            if time.monotonic() - self._denied.get(topic, float("-inf")) < DENIED_SECONDS:
                continue
            if topic in counts:
                self.troubles.pop(topic, None)
                found |= dict.fromkeys(((topic, number) for number in range(counts[topic])), kind)
            elif kind in ("clusters", "cluster_events", "assignments"):
                # The others are not there in every deployment.
                self.troubles[topic] = (
                    f"there is no topic {topic} on {cluster.servers}{nearest(topic, counts)}; a worker of the "
                    f"deployment {self._settings.name} makes it at its start"
                )
        return found

    def stored(self, stream: str) -> StreamPast:
        """Read the stored events and drift events of a stream; may take seconds on large topics."""
        with self._past_lock:
            if self._past is None or self._past.stream != stream:
                self._past, self._past_read = StreamPast(stream), {}
            elif time.monotonic() - self._past_made < PAST_SECONDS:
                return self._past
            kinds = {kind: FOLLOWED[kind] for kind in ("cluster_events", "drift_events")}
            topics = self._topics(kinds)
            partitions = self._partitions(self._admin(), kinds)
            marker = stream_marker(stream)
            with LogReader(self._client, self._group, PATIENCE) as reader:
                bounds = reader.bounds(partitions)
                if any(self._past_read.get(at, 0) > end for at, (_, end) in bounds.items()):
                    # A topic was deleted and made again.
                    self._past, self._past_read = StreamPast(stream), {}
                # Only what came since the last time.
                ranges = {at: (max(first, self._past_read.get(at, 0)), end) for at, (first, end) in bounds.items()}
                # No more than is shown: each partition is in order, and a stream is in one of each topic.
                found = deque(
                    (
                        (kinds[topics[topic]], each)
                        for (topic, _), records in reader.read(ranges)
                        for each in records
                        if each.value is not None and marker in each.value
                    ),
                    MOST_PAST,
                )
            self._past.extend(found)
            self._past_read = {at: end for at, (_, end) in bounds.items()}
            self._past_made = time.monotonic()
            return self._past

    def _admin(self) -> ClusterAdmin:
        return ClusterAdmin(self._client, self._settings.broker.answer_timeout)

    # Topics that are read whole

    def _follow(self) -> None:
        """Read everything anew, and then what comes, until the topics change."""
        cluster = self._admin()
        partitions = self._partitions(cluster, FOLLOWED)
        view = DeploymentView(self._settings.name)
        with LogReader(self._client, self._group, PATIENCE) as reader:
            bounds = reader.bounds(partitions)
        starts = {
            at: first if partitions[at] in ("clusters", "alerts", "names") else max(first, end - HISTORY)
            for at, (first, end) in bounds.items()
        }
        ends = {at: end for at, (_, end) in bounds.items()}
        client = self._client | {"fetch.wait.max.ms": 100, "group.id": self._group}
        with DeploymentOutputs(self._settings, starts, client, loads=None) as outputs:
            self._load(outputs, view, partitions, starts, ends)
            self._read_lives(view, partitions, view.named_streams)
            with self.view.lock:
                view.take_samples_of(self.view)
                self.view, self.loaded = view, 1.0
            self.troubles.pop("outputs", None)
            self._go_on(outputs, view, cluster, partitions)

    def _load(
        self,
        reader: DeploymentOutputs,
        view: DeploymentView,
        partitions: Mapping[TopicPartition, str],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Read what is there: the clusters, and then the rest by time."""
        total = sum(ends.values()) - sum(starts.values())
        waiting: deque[TimelineEntry] = deque(maxlen=200_000)
        moved = time.monotonic()
        while not reader.has_reached(ends):
            if self._stop.is_set():
                return
            records = list(map(record_of, reader.poll(POLL_SECONDS)))
            moved = time.monotonic() if records else moved
            if time.monotonic() - moved > PATIENCE and reader.trouble:
                self.troubles["outputs"] = f"the broker cannot be reached ({reader.trouble}); waiting for it"
            for record in records:
                kind = FOLLOWED[partitions[record.topic, record.partition]]
                if kind == "clusters":
                    view.apply_cluster(record.key or b"", record.value)
                elif kind == "names":
                    view.apply_name(record.key, record.value)
                elif (entry := view.read_output(kind, record, peers=False)) is not None:
                    waiting.append(entry)
            missing = sum(max(end - reader.positions[at], 0) for at, end in ends.items())
            self.loaded = 0.99 * (1 - missing / max(total, 1))
        for entry in sorted(waiting, key=lambda each: each.time):
            view.add(entry)

    def _read_lives(
        self, view: DeploymentView, partitions: Mapping[TopicPartition, str], streams: Collection[str]
    ) -> None:
        """Read what became of the clusters of streams that have a name, also of those before the timeline begins."""
        if streams:
            events = [at for at, kind in partitions.items() if kind == "cluster_events"]
            with LogReader(self._client, self._group, PATIENCE) as reader:
                for event in stored_events(reader, events, streams):
                    with view.lock:
                        view.names.table.apply(event)

    def _go_on(
        self,
        reader: DeploymentOutputs,
        view: DeploymentView,
        cluster: ClusterAdmin,
        partitions: Mapping[TopicPartition, str],
    ) -> None:
        looked = time.monotonic()
        while not self._stop.is_set():
            records = list(map(record_of, reader.poll(POLL_SECONDS)))
            entries = []
            named: set[str] = set()
            with view.lock:
                # Clusters last: a new one is described beside those of before.
                for record in records:
                    kind = FOLLOWED[partitions[record.topic, record.partition]]
                    if kind == "names":
                        new = view.apply_name(record.key, record.value)
                        named |= set() if new is None else {new}
                    elif kind != "clusters":
                        entry = view.read_output(kind, record, peers=len(records) <= FEW)
                        entries += [] if entry is None else [view.add(entry)]
                for record in records:
                    if partitions[record.topic, record.partition] == "clusters":
                        view.apply_cluster(record.key or b"", record.value)
            self._read_lives(view, partitions, named)
            if entries:
                with view.lock:
                    shown = as_json(entries, view.names)
                self._publish(shown)
            if reader.trouble:
                self.troubles["broker"] = f"the broker cannot be reached ({reader.trouble}); waiting for it"
            else:
                self.troubles.pop("broker", None)
            if time.monotonic() - looked > LOOK_SECONDS and not reader.trouble:
                looked = time.monotonic()
                if self._partitions(cluster, FOLLOWED).keys() != partitions.keys():
                    return

    # Topics of which the newest records are read

    def _sample(self) -> None:
        cluster = self._admin()
        partitions = self._partitions(cluster, SAMPLED)
        positions: dict[TopicPartition, int] = {}
        looked = began = time.monotonic()
        budget = {kind: SAVED * most for kind, most in SAMPLED.items()}
        with LogReader(self._client, self._group, PATIENCE) as reader:
            while not self._stop.is_set():
                before, began = began, time.monotonic()
                for kind, most in SAMPLED.items():
                    budget[kind] = min(budget[kind] + most * (began - before), SAVED * most)
                self._read_newest(reader, partitions, positions, budget)
                self.troubles.pop("samples", None)
                if began - looked > LOOK_SECONDS:
                    looked = began
                    if self._partitions(cluster, SAMPLED).keys() != partitions.keys():
                        return
                self._stop.wait(max(ROUND_SECONDS - (time.monotonic() - began), 0.05))

    def _read_newest(
        self,
        reader: LogReader,
        partitions: Mapping[TopicPartition, str],
        positions: dict[TopicPartition, int],
        budget: dict[str, float],
    ) -> None:
        """Read up to the `budget` of each kind from the ends of its partitions, and weigh the records."""
        count = Counter(partitions.values())
        shares = {kind: budget[kind] / count[kind] for kind in count}
        ranges, advance = {}, {}
        for at, (first, end) in reader.bounds(partitions).items():
            most = max(int(shares[partitions[at]]), 1)
            known = at in positions
            begin = max(positions.get(at, end - most), first)
            if begin > end:
                # The topic was deleted and made again.
                begin = first
            ranges[at] = (max(begin, end - most), end)
            advance[at] = (end - begin, known)
            positions[at] = end
        for at, records in reader.read(ranges, AT_ONCE):
            first, end = ranges[at]
            read, known = advance[at]
            # Offsets are also taken by the marks of transactions, in the same share of what was left out.
            weight = read / (end - first)
            budget[partitions[at]] -= len(records)
            with self.locked() as view:
                for record in records:
                    if partitions[at] == "assignments":
                        view.apply_answer(record.value, weight, counts=known)
                    else:
                        view.apply_dead_letter(record, weight)
