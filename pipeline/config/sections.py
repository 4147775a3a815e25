"""The sections of the settings, each setting documented where it is defined.

The text under an attribute is its meaning in the settings reference. The setting's name is ``section.attribute``, its
environment variable ``RESONANCE_SECTION__ATTRIBUTE``, its default the assigned value.
"""

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from resonance.pipeline.config.values import (
    Categories,
    Count,
    FeaturePaths,
    Missing,
    Names,
    OptionalCount,
    OptionalPath,
    OptionalText,
    OptionalTopic,
    Paths,
    Project,
    Ranges,
    Rarity,
    Robust,
    Seconds,
    TopicNames,
)

TOPIC_PATTERN = r"^[A-Za-z0-9._-]+$"
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(lambda value: value or None)]


class Section(BaseModel):
    """A frozen table of settings that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class BrokerSection(Section):
    """The Kafka cluster."""

    bootstrap: str = Field(default="localhost:9092", min_length=1)
    """Brokers to connect to first, as host:port, separated by commas."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to talk to the brokers."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """How to log in, with SASL_PLAINTEXT or SASL_SSL."""
    sasl_username: OptionalText = None
    """User name for the log-in."""
    sasl_password: OptionalSecret = None
    """Password for the log-in; better in the environment than in the file."""
    ssl_ca_location: OptionalText = None
    """File with the certificates of the authorities to trust; without it the system's."""
    ssl_certificate_location: OptionalText = None
    """File with the client's certificate."""
    ssl_key_location: OptionalText = None
    """File with the client's private key."""
    ssl_key_password: OptionalSecret = None
    """Password of the private key."""
    session_timeout: Seconds = Field(default=45.0, ge=1.0, le=1800.0)
    """Seconds without a heartbeat after which the group gives a worker's partitions to others."""
    answer_timeout: Seconds = Field(default=10.0, gt=0.0, le=300.0)
    """Seconds to wait for a first answer of the broker before giving up at start."""


class WorkerSection(Section):
    """The process itself."""

    id: OptionalText = Field(default=None, pattern=TOPIC_PATTERN)
    """Name of the worker, unique in the deployment; without it the host name and the HTTP port."""
    web_host: str = "127.0.0.1"
    """Address on which health and metrics are served."""
    web_port: Count = Field(default=6066, ge=1, le=65535)
    """Port of these pages; a second worker on one host needs another one."""
    web_token: OptionalSecret = None
    """Token that every request but those of probes must send (``Authorization: Bearer ...``); better in the environment
    than in the file."""
    web_open: bool = False
    """Whether the pages may be served beyond this machine without `web_token`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious messages to log."""
    log_format: Literal["text", "json"] = "text"
    """``text``: lines for people; ``json``: one JSON object a line."""


class InputSection(Section):
    """The input topics, and the paths of the parts of a record; paths are dotted."""

    topics: TopicNames = Field(min_length=1)
    """Topics to read, all with the same number of partitions."""
    features: FeaturePaths = "features"
    """List of paths to numbers; or one path to an array of numbers or to an object name -> number."""
    id_path: OptionalPath = None
    """Path to the record's id, text or a number."""
    time_path: OptionalPath = None
    """Path to the record's time, RFC 3339 text or milliseconds since 1970; without it Kafka's timestamp."""
    dimension: OptionalCount = Field(default=None, ge=1)
    """Number of features in an array; without it what the first usable record of a partition has."""
    sparse: OptionalPath = None
    """Instead of `features`, for the engines that take sparse records: path to ``{"indices": [...], "values": [...]}``
    or to an object name -> number whose names grow. What a record leaves out is 0 (docs/data.md)."""
    label_path: OptionalPath = None
    """Path to the record's label or list of labels, for engines that learn from labels. A record without the member
    is only predicted; an empty list is negative for all labels."""

    @model_serializer(mode="wrap")
    def _only_what_counts(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the default of `features` where `sparse` replaces it: written settings must be readable again."""
        values: dict[str, Any] = serialize(self)
        if self.sparse is not None:
            values.pop("features", None)
        return values


class LabelsSection(Section):
    """Labels that come later than their records, on a topic of their own."""

    topic: OptionalTopic = None
    """Topic with messages ``{"id": ..., "labels": [...], "stream": ...}``, with any number of partitions. Needs
    ``stream = "topic"`` or ``"field:..."``, `input.id_path`, and a list of `input.features` or `input.dimension`."""
    buffer_records: Count = Field(default=10_000, ge=1, le=1_000_000)
    """Newest records of each stream that can be labelled: their features are kept, in memory and in snapshots."""
    wait_records: Count = Field(default=1_000, ge=0, le=10_000)
    """Records and labels of its stream for which a label waits for its record, because two topics have no common
    order. 0 for labels that never come before their records."""


class PrepareSection(Section):
    """How features are prepared before every engine: deterministic, and part of a stream's state."""

    scale: Literal["warmup", "given", "none"] = "warmup"
    """``warmup``: the 1st to 99th percentile of the first records becomes [0, 1]; ``given``: `ranges` do; ``none``.
    With `input.sparse` the default is ``none``, and ``warmup`` cannot be chosen."""
    warmup_records: OptionalCount = Field(default=None, ge=1, le=1_000_000)
    """Records of a stream that are held back to learn the scale, answered ``warming_up``, then learned in order.
    Without it 200, or 500 where records are projected."""
    project: Project = "auto"
    """Number of principal axes of the warm-up that replace the features, from 1 to 64; 0: none. ``auto``: 16 with 33
    features or more and the scale ``warmup``, unless the engine learns from labels or is defined on [0, 1]. Centres and
    spreads are in the features in any case."""
    robust: Robust = "auto"
    """Three steps. Binary features, rare ones (one value in nine tenths of the records, if not projected) and
    categories are down-weighted. Skewed features are compressed. Rounded values and counts (five or more values on an
    even grid) are spread over their steps. ``auto``: with ``scale = "warmup"`` and the engine ``modal``."""
    rescale: Robust = "auto"
    """Whether a feature's range is re-fitted when more than half of 1,000 records have left it by more than its width,
    and restored when they return. ``auto``: with ``scale = "warmup"`` and the engine ``modal``, if records are not
    projected."""
    missing: Missing = "reject"
    """A missing or null feature: ``reject`` the record, take the ``mean`` of the warm-up, or this number."""
    log1p: Names = ()
    """Features that become log(1 + x); with `input.sparse`, ``*`` means all."""
    categories: Categories = Field(default_factory=dict)
    """Features that are categories, each with its values; unknown values are like none of them."""
    ranges: Ranges = Field(default_factory=dict)
    """With ``scale = "given"``: feature -> [value that becomes 0, value that becomes 1]; with `input.sparse`, ``*``
    means every feature without a range of its own, and ranges begin at 0."""


class EngineSection(BaseModel):
    """The algorithm and its own parameters."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str = "modal"
    """The engine; docs/engines compares them."""
    preset: OptionalText = None
    """A named set of its parameters; given parameters override it."""

    @cached_property
    def given(self) -> dict[str, Any]:
        """The engine's own parameters, as they were given."""
        return dict(self.__pydantic_extra__ or {})


class DriftSection(Section):
    """The watch for changes of the data (docs/drift.md)."""

    detect: bool = True
    """Whether every stream of dense records is watched. Changing a setting of this section restarts the watch, not the
    model."""
    rarity: Rarity = "auto"
    """Records of a stream between two false alarms, at least, if records were independent. ``auto``: a hundredth of
    `alerts.rarity`, with which several times as many as that were measured between two."""
    step: Seconds = Field(default=0.5, ge=0.1, le=3.0)
    """Smallest shift of a mean that is reported, in spreads of its cluster."""
    hold: Count = Field(default=500, ge=64, le=1_000_000)
    """Records of the stream that a change lasts at least; it ends after eight times as many at the latest."""
    ordinary: Count = Field(default=5, ge=1, le=1_000_000)
    """Returns to earlier places after which everything between them is ordinary: a daily rhythm is not reported any
    more."""
    cells: Count = Field(default=32, ge=0, le=64)
    """Clusters that are watched separately, at most, the largest first; 0: only the stream as a whole."""


class DeliverySection(Section):
    """How outputs and offsets are written."""

    mode: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """``exactly_once``: transactions. ``at_least_once``: repeats are possible after a crash, and identical."""
    commit_interval: Seconds = Field(default=0.1, gt=0.0, le=60.0)
    """Seconds after which a transaction is closed, or offsets are committed."""
    transaction_timeout: Seconds = Field(default=60.0, ge=1.0, le=900.0)
    """Seconds after which the broker aborts the open transaction of a worker."""


class SnapshotsSection(Section):
    """How often snapshots of streams are written: one at a time, the longest waiting first."""

    records: Count = Field(default=10_000, ge=1)
    """Minimum records of the partition between two snapshots of a changed stream; before the first at most 500."""
    ratio: Seconds = Field(default=4.0, ge=0.0)
    """Minimum input bytes of the partition for each byte of snapshots."""
    archive_interval: Seconds = Field(default=3600.0, ge=0.0)
    """Seconds between two archives of a partition, for replays of the past; 0 for none."""


class LimitsSection(Section):
    """Limits of one partition; records beyond them become dead letters."""

    streams: Count = Field(default=10_000, ge=1)
    """Streams of a partition."""
    streams_in_memory: Count = Field(default=10_000, ge=0)
    """Streams of a partition whose models stay in memory; 0 for all. The least recently used go to a temporary file
    (TMPDIR), and come back with their next record. No output depends on it."""
    stream_ttl: Seconds = Field(default=0.0, ge=0.0, le=100 * 365 * 86_400.0)
    """Seconds without a record, by the times of the partition's records, after which a stream ends; 0 for never. Needs
    ``stream = "key"``."""
    record_bytes: Count = Field(default=1_000_000, ge=1)
    """Bytes of a record's value."""
    key_bytes: Count = Field(default=256, ge=1)
    """Bytes of a record's key with ``stream = "key"``, or of the member with ``"field:..."``."""
    dead_letter_bytes: Count = Field(default=900_000, ge=2_000)
    """Bytes of a dead letter, below what its topic takes (max.message.bytes): a longer value is cut."""
    dead_letters_in_a_row: Count = Field(default=1_000, ge=1)
    """Dead letters of one kind in a row after which the worker is not ready."""


class DlqSection(Section):
    """When a partition pauses because most of its records are dead letters; `resonance dlq resume` resumes it."""

    max_share: Seconds = Field(default=0.5, gt=0.0, le=1.0)
    """Share of dead letters among the last `window` records above which a partition pauses; 1 never does."""
    window: Count = Field(default=10_000, ge=1, le=10_000_000)
    """Number of these records; those that have not come yet count as good."""


class AlertsSection(Section):
    """When something needs a look (docs/alerts.md): rules with a default, each of which opens and clears by itself."""

    rarity: Seconds = Field(default=1e7, ge=1e3, le=1e15)
    """Records between two false alerts, over all streams together."""
    unlike: bool = True
    """A stream is unlike what its model knows, far beyond its own usual share of such records: a device breaks."""
    new_cluster: bool = True
    """A cluster that emerged in a stream that had been learned holds much of its recent records."""
    new_cluster_share: Seconds = Field(default=0.1, gt=0.0, le=1.0)
    """Share of the recent records at which that alert opens; it clears at half of it."""
    share: bool = True
    """A cluster's share of its stream has doubled, or the cluster is gone; follows from the drift events."""
    drift_open: bool = True
    """A stream has drifted, and has no new baseline yet; follows from the drift events."""
    one_cluster: Robust = "auto"
    """One cluster takes nearly all records of a stream. ``auto``: where streams are partitions; one of many streams may
    well have one kind of records."""
    one_cluster_share: Seconds = Field(default=0.98, ge=0.5, lt=1.0)
    """Share of one cluster beyond which that alert opens."""
    one_cluster_records: Count = Field(default=10_000, ge=100, le=1_000_000_000)
    """Records after which it opens, at least."""
    unconfirmed: bool = True
    """A stream has no confirmed cluster, or has lost what it had."""
    unconfirmed_records: Count = Field(default=5_000, ge=100, le=1_000_000_000)
    """Records without a cluster after which that alert opens."""
    dead_letters: bool = True
    """Many of a partition's records cannot be used."""
    dead_letters_share: Seconds = Field(default=0.05, gt=0.0, le=1.0)
    """Share of dead letters among the last records at which that alert opens; it clears at half of it."""
    dead_letters_window: Count = Field(default=1_000, ge=10, le=10_000)
    """Records that are looked at; those that have not come yet count as good."""
    silent: bool = True
    """A stream has no records for long, by the times of other streams' records; not where streams are partitions."""
    silent_gaps: Seconds = Field(default=20.0, ge=2.0, le=1e6)
    """Usual gaps between two records of the stream after which that alert opens; and twice its longest gap in the last
    week or two, so that nights and weekends are silent once."""
    silent_seconds: Seconds = Field(default=60.0, ge=1.0, le=1e9)
    """Seconds after which it opens, at least."""


class TopicsSection(Section):
    """Names of the topics if not ``<name>.<kind>``, and how they are created."""

    assignments: OptionalTopic = None
    """Assignments, one a record; default ``<name>.assignments``."""
    cluster_events: OptionalTopic = None
    """Life-cycle events of clusters; default ``<name>.cluster-events``."""
    drift_events: OptionalTopic = None
    """Changes of the data (`drift.detect`), of the range of a feature (`prepare.rescale`), or of the groups of features
    (`mlca_c`); default ``<name>.drift-events``."""
    alerts: OptionalTopic = None
    """What needs a look: alerts that opened and cleared; default ``<name>.alerts``."""
    dead_letters: OptionalTopic = None
    """Records that could not be used; default ``<name>.dead-letters``."""
    clusters: OptionalTopic = None
    """Clusters by id, compacted; default ``<name>.clusters``."""
    snapshots: OptionalTopic = None
    """States of the streams, compacted; default ``<name>.snapshots``."""
    archive: OptionalTopic = None
    """Earlier states of the streams, kept as long as the input; default ``<name>.archive``."""
    routes: OptionalTopic = None
    """Records repartitioned by stream, with ``stream = "topic"`` or ``"field:..."``, or operations on subtrees, with
    ``hierarchy = "keyed"``; default ``<name>.routes``."""
    routes_partitions: OptionalCount = Field(default=None, ge=1, le=100_000)
    """Partitions of the routes, which bound how many workers learn; by default those of the existing topic, or as many
    as the input. Changing it later relocates streams and needs new models."""
    create: bool = True
    """Create missing topics at start; without it a missing topic stops the start."""
    replication_factor: Count = Field(default=-1, ge=-1, le=32767)
    """Copies of created topics; -1 = the broker's default."""

    KINDS: ClassVar[tuple[str, ...]] = (
        "assignments",
        "cluster_events",
        "drift_events",
        "alerts",
        "dead_letters",
        "clusters",
        "snapshots",
        "archive",
        "routes",
    )


class OutputSection(Section):
    """The form of the outputs."""

    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """Compression of output batches."""
    envelope: Literal["cloudevents", "plain"] = "cloudevents"
    """``cloudevents``: CloudEvents headers on every output. ``plain``: none."""
    assignments: Literal["all", "changes", "novel", "none"] = "all"
    """Which assignments are written. ``changes``: those with another cluster or status than the stream's previous
    one."""
    clusters_grace: Seconds = Field(default=7 * 86_400.0, ge=0.0, le=10 * 365 * 86_400.0)
    """Seconds, by the records' own times, before an ended cluster is removed from the clusters topic."""
    include: Paths = ()
    """Members of the input to copy into the assignments."""
