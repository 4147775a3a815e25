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
    """Brokers to connect to first: host:port, separated by commas."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Protocol of the brokers' listener."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """How to log in, with SASL."""
    sasl_username: OptionalText = None
    """User name for the log-in."""
    sasl_password: OptionalSecret = None
    """Password for the log-in; belongs in the environment."""
    sasl_oauthbearer_token_endpoint_url: OptionalText = None
    """With ``OAUTHBEARER`` in place of user and password: where an OpenID provider issues tokens."""
    sasl_oauthbearer_client_id: OptionalText = None
    """Client id at that provider."""
    sasl_oauthbearer_client_secret: OptionalSecret = None
    """Secret of the client; belongs in the environment."""
    sasl_oauthbearer_scope: OptionalText = None
    """Scope of the tokens."""
    https_ca_location: OptionalText = None
    """File with the authorities that are trusted for the provider's address; else the system's."""
    ssl_ca_location: OptionalText = None
    """File with the certificates of trusted authorities; else the system's."""
    ssl_certificate_location: OptionalText = None
    """File with the client's certificate."""
    ssl_key_location: OptionalText = None
    """File with the client's private key."""
    ssl_key_password: OptionalSecret = None
    """Password of the private key."""
    session_timeout: Seconds = Field(default=45.0, ge=1.0, le=1800.0)
    """Seconds without a heartbeat until a worker's partitions go to others."""
    answer_timeout: Seconds = Field(default=10.0, gt=0.0, le=300.0)
    """Seconds that a start waits for the broker's first answer."""


class WorkerSection(Section):
    """The process itself."""

    id: OptionalText = Field(default=None, pattern=TOPIC_PATTERN)
    """Name of the worker, unique in the deployment; else host name and HTTP port."""
    web_host: str = "127.0.0.1"
    """Address of the pages of health and metrics."""
    web_port: Count = Field(default=6066, ge=1, le=65535)
    """Their port; each worker on a host needs its own."""
    web_token: OptionalSecret = None
    """Token that every request but probes must send (``Authorization: Bearer ...``); belongs in the environment."""
    web_open: bool = False
    """Allows pages beyond this machine without `web_token`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious messages to log."""
    log_format: Literal["text", "json"] = "text"
    """``text``: lines for people; ``json``: one JSON object a line."""


class InputSection(Section):
    """The input topics, and the paths of the parts of a record; paths are dotted."""

    topics: TopicNames = Field(min_length=1)
    """Topics to read, all with the same number of partitions."""
    format: Literal["json", "float32", "avro", "protobuf", "json_schema"] = "json"
    """What a value is: a JSON object (``json``); an array of little-endian float32 (``float32``), whose id is the key
    and whose time is Kafka's timestamp; or a value with the id of its schema in `schema_registry`. See docs/data.md."""
    features: FeaturePaths = "features"
    """Paths to numbers; or one path to an array of numbers or an object name -> number."""
    id_path: OptionalPath = None
    """Path to the record's id, text or a number."""
    time_path: OptionalPath = None
    """Path to the record's time, RFC 3339 text or milliseconds since 1970; else Kafka's timestamp."""
    dimension: OptionalCount = Field(default=None, ge=1)
    """Length of an array of features; else that of a partition's first usable record."""
    sparse: OptionalPath = None
    """Instead of `features`: path to ``{"indices": [...], "values": [...]}``, or to an object name -> number whose
    names grow; see docs/data.md."""
    label_path: OptionalPath = None
    """Path to the record's label or list of labels; see docs/labels.md."""

    @model_serializer(mode="wrap")
    def _only_what_counts(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the default of `features` where `sparse` replaces it: written settings must be readable again."""
        values: dict[str, Any] = serialize(self)
        if self.sparse is not None:
            values.pop("features", None)
        return values


class SchemaRegistrySection(Section):
    """The Schema Registry with the schemas of the input, named as by confluent-kafka's client."""

    url: OptionalText = None
    """Its address, such as https://registry.example:8081; several, which share their schemas, separated by commas."""
    basic_auth_user: OptionalText = None
    """User name for the log-in, or an API key."""
    basic_auth_password: OptionalSecret = None
    """Password for the log-in; belongs in the environment."""
    ssl_ca_location: OptionalText = None
    """File with the certificates of trusted authorities; else those of the package certifi."""
    ssl_certificate_location: OptionalText = None
    """File with the client's certificate."""
    ssl_key_location: OptionalText = None
    """File with the client's private key."""
    ssl_key_password: OptionalSecret = None
    """Password of the private key."""
    timeout: Seconds = Field(default=4.0, gt=0.0, le=30.0)
    """Seconds that a request waits for an answer."""
    max_retries: Count = Field(default=3, ge=0, le=20)
    """Repeats of a request that had no answer, or one of 408, 429, 500, 502, 503 and 504."""
    retries_wait_ms: Count = Field(default=1_000, ge=1, le=30_000)
    """Milliseconds before the first repeat, at most; twice as many before each further one."""
    retries_max_wait_ms: Count = Field(default=20_000, ge=1, le=60_000)
    """Milliseconds before any repeat, at most."""

    @property
    def urls(self) -> list[str]:
        """The single addresses."""
        return [each.strip() for each in (self.url or "").split(",") if each.strip()]

    @property
    def patience(self) -> float:
        """Seconds that a question can take until it is given up."""
        waits = [min(self.retries_wait_ms << i, self.retries_max_wait_ms) for i in range(self.max_retries)]
        return max(len(self.urls), 1) * ((1 + self.max_retries) * self.timeout + sum(waits) / 1000)


class LabelsSection(Section):
    """Labels that come later than their records, on a topic of their own."""

    topic: OptionalTopic = None
    """Topic with messages ``{"id": ..., "labels": [...], "stream": ...}``; needs re-keyed streams, `input.id_path`, and
    listed `input.features` or `input.dimension`."""
    buffer_records: Count = Field(default=10_000, ge=1, le=1_000_000)
    """Newest records of each stream that can be labelled; memory and snapshots hold their features."""
    wait_records: Count = Field(default=1_000, ge=0, le=10_000)
    """Records and labels of its stream for which a label waits for its record; 0: none."""


class PrepareSection(Section):
    """How features are prepared before every engine: deterministic, and part of a stream's state."""

    scale: Literal["warmup", "given", "none"] = "warmup"
    """What becomes [0, 1]. ``warmup``: the 1st to 99th percentile of the first records; ``given``: `ranges`; ``none``,
    the default with `input.sparse`, which cannot have ``warmup``."""
    warmup_records: OptionalCount = Field(default=None, ge=1, le=1_000_000)
    """Records of a stream that are held back to learn the scale; else 200, or 500 if records are projected."""
    project: Project = "auto"
    """Principal axes of the warm-up that replace the features, 1 to 64; 0: none. ``auto``: 16 from 33 features on with
    the scale ``warmup``, unless the engine learns labels or is defined on [0, 1]."""
    robust: Robust = "auto"
    """Down-weights binary features, categories and rare features (one value in nine tenths of the records, if not
    projected), compresses skewed ones, and spreads values of an even grid (five or more) over their steps. ``auto``:
    with ``scale = "warmup"`` and ``modal``."""
    rescale: Robust = "auto"
    """Re-fits the range of a feature that most records have left; see docs/tuning.md. ``auto``: with
    ``scale = "warmup"`` and ``modal``, if records are not projected."""
    missing: Missing = "reject"
    """For a missing or null feature: ``reject`` the record, the ``mean`` of the warm-up, or a number."""
    log1p: Names = ()
    """Features that become log(1 + x); sparse: ``*`` is all."""
    categories: Categories = Field(default_factory=dict)
    """Categorical features, each with its values; others are like none of them."""
    ranges: Ranges = Field(default_factory=dict)
    """With ``scale = "given"``: feature -> [value that becomes 0, value that becomes 1]; sparse: ranges begin at 0,
    ``*`` is every feature without its own."""


class EngineSection(BaseModel):
    """The algorithm and its own parameters."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str = "modal"
    """The engine; docs/engines/README.md compares them."""
    preset: OptionalText = None
    """Named set of its parameters; given parameters override it."""

    @cached_property
    def given(self) -> dict[str, Any]:
        """The engine's own parameters, as they were given."""
        return dict(self.__pydantic_extra__ or {})


class DriftSection(Section):
    """The watch for changes of the data (docs/drift.md)."""

    detect: bool = True
    """Watches every stream of dense records. Changing a setting of this section restarts the watch, not the model."""
    rarity: Rarity = "auto"
    """Independent records of a stream between two false alarms, at least. ``auto``: a hundredth of `alerts.rarity`."""
    step: Seconds = Field(default=0.5, ge=0.1, le=3.0)
    """Smallest reported shift of a mean, in spreads of its cluster."""
    hold: Count = Field(default=500, ge=64, le=1_000_000)
    """Records of the stream that a change lasts at least; at most eight times as many."""
    ordinary: Count = Field(default=5, ge=1, le=1_000_000)
    """Returns to earlier places after which all between is ordinary, such as a daily rhythm."""
    cells: Count = Field(default=32, ge=0, le=64)
    """Clusters watched separately, the largest first; 0: only the whole stream."""


class DeliverySection(Section):
    """How outputs and offsets are written."""

    mode: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """``exactly_once``: transactions; ``at_least_once``: identical repeats after a crash."""
    commit_interval: Seconds = Field(default=0.1, gt=0.0, le=60.0)
    """Seconds between commits."""
    transaction_timeout: Seconds = Field(default=60.0, ge=1.0, le=900.0)
    """Seconds after which the broker aborts a worker's open transaction."""


class SnapshotsSection(Section):
    """How often snapshots of streams are written: one at a time, the longest waiting first."""

    records: Count = Field(default=10_000, ge=1)
    """Least records of the partition between two snapshots of a changed stream; at most 500 before the first."""
    ratio: Seconds = Field(default=4.0, ge=0.0)
    """Least input bytes of the partition for each byte of snapshots."""
    archive_interval: Seconds = Field(default=3600.0, ge=0.0)
    """Seconds between two archives of a partition; 0: none."""


class LimitsSection(Section):
    """Limits of one partition; records beyond them become dead letters."""

    streams: Count = Field(default=10_000, ge=1)
    """Streams of a partition."""
    streams_in_memory: Count = Field(default=10_000, ge=0)
    """Streams of a partition whose models stay in memory; 0: all. Idle ones go to a temporary file (TMPDIR). No output
    depends on it."""
    stream_ttl: Seconds = Field(default=0.0, ge=0.0, le=100 * 365 * 86_400.0)
    """Seconds without a record, by the times of the partition's records, after which a stream ends; 0: never. Needs
    ``stream = "key"``, ``hierarchy = "local"`` and ``delivery.mode = "exactly_once"``."""
    record_bytes: Count = Field(default=1_000_000, ge=1)
    """Bytes of a record's value."""
    key_bytes: Count = Field(default=256, ge=1)
    """Bytes of the key, or of the member, that names the stream."""
    dead_letter_bytes: Count = Field(default=900_000, ge=2_000)
    """Bytes of a dead letter, below its topic's max.message.bytes: a longer value is cut."""
    dead_letters_in_a_row: Count = Field(default=1_000, ge=1)
    """Dead letters of one kind in a row until the worker is not ready."""


class DlqSection(Section):
    """When a partition pauses because most of its records are dead letters; `resonance dlq resume` resumes it."""

    max_share: Seconds = Field(default=0.5, gt=0.0, le=1.0)
    """Share of dead letters among the last `window` records above which a partition pauses; 1: never."""
    window: Count = Field(default=10_000, ge=1, le=10_000_000)
    """These records; those yet to come count as good."""


class AlertsSection(Section):
    """When something needs a look (docs/alerts.md)."""

    rarity: Seconds = Field(default=1e7, ge=1e3, le=1e15)
    """Records between two false alerts, over all streams together."""
    unlike: bool = True
    """A stream is unlike what its model knows."""
    new_cluster: bool = True
    """A new cluster holds much of a stream."""
    new_cluster_share: Seconds = Field(default=0.1, gt=0.0, le=1.0)
    """Share of the recent records at which it opens."""
    share: bool = True
    """A cluster's share of its stream has changed."""
    drift_open: bool = True
    """A stream has drifted."""
    one_cluster: Robust = "auto"
    """One cluster takes nearly all records. ``auto``: where streams are partitions."""
    one_cluster_share: Seconds = Field(default=0.98, ge=0.5, lt=1.0)
    """Share beyond which it opens."""
    one_cluster_records: Count = Field(default=10_000, ge=100, le=1_000_000_000)
    """Records until it opens, at least."""
    unconfirmed: bool = True
    """A stream has no confirmed cluster."""
    unconfirmed_records: Count = Field(default=5_000, ge=100, le=1_000_000_000)
    """Records without a cluster until it opens."""
    dead_letters: bool = True
    """Many of a partition's records cannot be used."""
    dead_letters_share: Seconds = Field(default=0.05, gt=0.0, le=1.0)
    """Share of them at which it opens."""
    dead_letters_window: Count = Field(default=1_000, ge=10, le=10_000)
    """Last records of a partition that are looked at."""
    silent: bool = True
    """A stream has no records for long; not where streams are partitions."""
    silent_gaps: Seconds = Field(default=20.0, ge=2.0, le=1e6)
    """Usual gaps between two records of the stream until it opens."""
    silent_seconds: Seconds = Field(default=60.0, ge=1.0, le=1e9)
    """Seconds until it opens, at least."""


class TopicsSection(Section):
    """Names of the topics if not ``<name>.<kind>``, and how they are created."""

    assignments: OptionalTopic = None
    """Assignments."""
    cluster_events: OptionalTopic = None
    """Events of clusters."""
    drift_events: OptionalTopic = None
    """Changes of the data."""
    alerts: OptionalTopic = None
    """Alerts."""
    dead_letters: OptionalTopic = None
    """Records that could not be used."""
    clusters: OptionalTopic = None
    """Clusters by id, compacted."""
    snapshots: OptionalTopic = None
    """States of the streams, compacted."""
    archive: OptionalTopic = None
    """Earlier states of the streams."""
    routes: OptionalTopic = None
    """What passes from the first stage to the second, with re-keyed streams or ``hierarchy = "keyed"``."""
    names: OptionalTopic = None
    """Names that people gave clusters, compacted."""
    routes_partitions: OptionalCount = Field(default=None, ge=1, le=100_000)
    """Partitions of the routes, which bound how many workers learn; else as existing, or as the input. Changing it
    needs new models."""
    create: bool = True
    """Create missing topics at start; else one that is missing stops it."""
    replication_factor: Count = Field(default=-1, ge=-1, le=32767)
    """Copies of created topics; -1: the broker's default."""

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
        "names",
    )


class OutputSection(Section):
    """The form of the outputs."""

    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """Compression of output batches."""
    envelope: Literal["events", "cloudevents", "plain"] = "events"
    """CloudEvents headers on all but assignments, which name their record themselves (``events``), on every output
    (``cloudevents``), or on none (``plain``). It can change at any time; dead letters have none."""
    assignments: Literal["all", "changes", "novel", "none"] = "all"
    """Which are written. ``changes``: those with another cluster or status than the stream's previous one."""
    clusters_grace: Seconds = Field(default=7 * 86_400.0, ge=0.0, le=10 * 365 * 86_400.0)
    """Seconds, by the records' own times, until an ended cluster leaves the clusters topic."""
    include: Paths = ()
    """Members of the input that assignments copy."""
