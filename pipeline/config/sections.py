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
    field_validator,
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
    """Port of it; a second worker on one host needs another one."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious messages to log."""
    log_format: Literal["text", "json"] = "text"
    """``text``: lines for people; ``json``: one JSON object a line."""


class InputSection(Section):
    """The input topics, and where in a JSON object the parts of a record stand; paths are dotted."""

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
    """Path to the record's labels, for engines that are taught by them: one, or a list of them. A record without the
    member is predicted only; an empty list teaches that it has none of the labels."""

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
    """The topic with messages ``{"id": ..., "labels": [...], "stream": ...}``; without it there is none. It may have
    any number of partitions. Needs ``stream = "topic"`` or ``"field:..."``, `input.id_path`, and features that the
    settings say: a list of paths, or `input.dimension`."""
    buffer_records: Count = Field(default=10_000, ge=1, le=1_000_000)
    """Records of each stream that labels can still reach: their features are kept, in memory and in snapshots."""
    wait_records: Count = Field(default=1_000, ge=0, le=10_000)
    """Records and labels of its stream that a label waits for a record that has not come: two topics have no common
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
    """Principal axes of the warm-up that an engine sees in place of the features: a number from 1 to 64, at most the
    features; 0: none. ``auto``: 16 where there are 33 features or more, the scale is ``warmup``, and the engine is not
    one that labels teach or that is defined on [0, 1] alone. Centres and spreads are in the features all the same."""
    robust: Robust = "auto"
    """Whether features with two values (or, where records are not projected, with one in nine tenths of the records)
    and categories count little beside others, skewed features are bent, so that a cluster at the crowded end is as wide
    as others, and features that are rounded or count (five or more values on an even grid) are spread over their steps.
    ``auto``: with ``scale = "warmup"`` and the engine ``modal``."""
    rescale: Robust = "auto"
    """Whether a feature's range is frozen anew when more than half of 1,000 records have left it by more than its
    width, and given back when they return. ``auto``: with ``scale = "warmup"`` and the engine ``modal``, where records
    are not projected."""
    missing: Missing = "reject"
    """A missing or null feature: ``reject`` the record, take the ``mean`` of the warm-up, or this number."""
    log1p: Names = ()
    """Features of which log(1 + x) is taken; with `input.sparse`, ``*`` stands for all."""
    categories: Categories = Field(default_factory=dict)
    """Features that are categories, each with its values; unknown values are like none of them."""
    ranges: Ranges = Field(default_factory=dict)
    """With ``scale = "given"``: feature -> [value that becomes 0, value that becomes 1]; with `input.sparse` ``*``
    stands for every feature without a range of its own, and ranges begin at 0."""


class EngineSection(BaseModel):
    """The algorithm and its own parameters."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str = "modal"
    """The engine; what each is for and when to choose it: docs/engines."""
    preset: OptionalText = None
    """A named set of its parameters; parameters that are given win over it."""

    @cached_property
    def given(self) -> dict[str, Any]:
        """The engine's own parameters, as they were given."""
        return dict(self.__pydantic_extra__ or {})


class DeliverySection(Section):
    """How outputs and offsets reach the bus."""

    mode: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """``exactly_once``: transactions. ``at_least_once``: repeats are possible after a crash, and identical."""
    commit_interval: Seconds = Field(default=0.1, gt=0.0, le=60.0)
    """Seconds after which a transaction is closed, or offsets are committed."""
    transaction_timeout: Seconds = Field(default=60.0, ge=1.0, le=900.0)
    """Seconds after which the broker aborts the transaction of a worker that has gone silent."""


class SnapshotsSection(Section):
    """How often snapshots of streams are written: one at a time, the longest waiting first."""

    records: Count = Field(default=10_000, ge=1)
    """Records of the partition that a changed stream waits for its snapshot, at least; for its first at most 500."""
    ratio: Seconds = Field(default=4.0, ge=0.0)
    """Input bytes of the partition for each byte of snapshots that is written, at least."""
    archive_interval: Seconds = Field(default=3600.0, ge=0.0)
    """Seconds between two archives of a partition, from which its past can be replayed; 0 for none."""


class LimitsSection(Section):
    """Limits of one partition; records beyond them become dead letters."""

    streams: Count = Field(default=10_000, ge=1)
    """Streams of a partition."""
    record_bytes: Count = Field(default=1_000_000, ge=1)
    """Bytes of a record's value."""
    key_bytes: Count = Field(default=256, ge=1)
    """Bytes of a record's key with ``stream = "key"``, or of the member with ``"field:..."``."""
    dead_letter_bytes: Count = Field(default=900_000, ge=2_000)
    """Bytes of a dead letter, below what its topic takes (max.message.bytes): a longer value is cut."""
    dead_letters_in_a_row: Count = Field(default=1_000, ge=1)
    """Dead letters of one kind in a row after which the worker says that it is not ready."""


class DlqSection(Section):
    """When a partition pauses because its records are mostly dead letters; `resonance dlq resume` resumes it."""

    max_share: Seconds = Field(default=0.5, gt=0.0, le=1.0)
    """Share of dead letters among the last `window` records above which a partition pauses; 1 never does."""
    window: Count = Field(default=10_000, ge=1, le=10_000_000)
    """Records that are looked at; those that have not come yet count as good."""


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
    """Names of the deployment's topics, where ``<name>.<kind>`` does not fit, and how topics are created."""

    assignments: OptionalTopic = None
    """Answers, one a record; default ``<name>.assignments``."""
    cluster_events: OptionalTopic = None
    """Life-cycle events of clusters; default ``<name>.cluster-events``."""
    drift_events: OptionalTopic = None
    """Changes of the data themselves: of the range of a feature (`prepare.rescale`), of the groups of features that an
    engine sees; default ``<name>.drift-events``."""
    alerts: OptionalTopic = None
    """What needs a look: alerts that opened and cleared; default ``<name>.alerts``."""
    dead_letters: OptionalTopic = None
    """Records that could not be used; default ``<name>.dead-letters``."""
    clusters: OptionalTopic = None
    """Clusters by id, compacted; default ``<name>.clusters``."""
    snapshots: OptionalTopic = None
    """States of the streams, compacted; default ``<name>.snapshots``."""
    archive: OptionalTopic = None
    """States of the streams as they were, kept as long as the input; default ``<name>.archive``."""
    routes: OptionalTopic = None
    """Records on their way to where their stream is learned, with ``stream = "topic"`` or ``"field:..."``; default
    ``<name>.routes``."""
    routes_partitions: OptionalCount = Field(default=None, ge=1, le=100_000)
    """Partitions of the routes, which bound how many workers learn; without it as many as there are, or as the input
    has where the topic is made. Another number later means other places of the streams, and so new models."""
    create: bool = True
    """Make missing topics at start; without it a missing topic stops the start."""
    replication_factor: Count = Field(default=-1, ge=-1, le=32767)
    """Copies of topics that are made; -1 = the broker's default."""

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
    """What outputs look like."""

    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """Compression of output batches."""
    envelope: Literal["cloudevents", "plain"] = "cloudevents"
    """``cloudevents``: CloudEvents headers on every output. ``plain``: none."""
    assignments: Literal["all", "changes", "novel", "none"] = "all"
    """Which answers are written: ``changes``: where cluster or status differ from the stream's answer before."""
    clusters_grace: Seconds = Field(default=7 * 86_400.0, ge=0.0, le=10 * 365 * 86_400.0)
    """Seconds, by the records' own times, for which the topic of the clusters keeps an ended one."""
    events: OptionalText = None
    """Not available yet: ``debug`` for events of single nodes, beside those of clusters."""
    include: Paths = ()
    """Members of the input to copy into the assignments."""

    @field_validator("events")
    @classmethod
    def _not_yet(cls, events: str | None) -> str | None:
        if events is not None:
            raise ValueError(
                "events of single nodes are not available in this version; leave it out (those of clusters are always "
                "written)"
            )
        return events
