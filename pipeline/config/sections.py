"""The sections of the settings, each setting documented where it is defined.

The text under an attribute is its meaning in the settings reference. The setting's name is ``section.attribute``, its
environment variable ``RESONANCE_SECTION__ATTRIBUTE``, its default the assigned value.
"""

import re
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from resonance.pipeline.config.properties import Properties, gathered
from resonance.pipeline.config.values import (
    AlertRules,
    Categories,
    Count,
    FeaturePaths,
    Memory,
    Missing,
    Names,
    OptionalCount,
    OptionalPath,
    OptionalRecords,
    OptionalText,
    OptionalTopic,
    Paths,
    Processes,
    Project,
    Ranges,
    Rarity,
    Robust,
    Seconds,
    Servers,
    TopicNames,
    TopicPattern,
)

TOPIC_PATTERN = r"^[A-Za-z0-9._-]+$"
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(lambda value: value or None)]


def _token(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and not re.fullmatch(r"[!-~]([ -~]*[!-~])?", secret.get_secret_value()):
        raise ValueError("must be printable ASCII, because it is sent in a header, with no space or line at its ends")
    return secret


OptionalToken = Annotated[OptionalSecret, AfterValidator(_token)]


class Section(BaseModel):
    """A frozen table of settings that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class BrokerSection(Section):
    """The Kafka cluster."""

    bootstrap: Servers = "localhost:9092"
    """First brokers, ``host:port``, separated by commas."""
    librdkafka: Properties = Field(default_factory=dict)
    """Entries go to [librdkafka](security.md): ``sasl.username = "me"``."""
    session_timeout: Seconds = Field(default=45.0, ge=1.0, le=1800.0)
    """Seconds without heartbeat until others get the partitions."""
    answer_timeout: Seconds = Field(default=10.0, gt=0.0, le=300.0)
    """Seconds that a start waits for a broker."""

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, values: Any) -> Any:
        return gathered(values, "librdkafka")


class WorkerSection(Section):
    """The process itself."""

    id: OptionalText = Field(default=None, pattern=TOPIC_PATTERN)
    """Name, unique in the deployment; else host and port."""
    web_host: str = "127.0.0.1"
    """Address of health and metrics."""
    web_port: Count = Field(default=6066, ge=1, le=65535)
    """Their port, one for each worker of a host."""
    processes: Processes = 1
    """Workers of this command, on the next ports, or ``auto``: one for each core."""
    web_token: OptionalToken = None
    """Token that all but probes must send."""
    web_open: bool = False
    """Opens them beyond this machine without a token."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious messages."""
    log_format: Literal["text", "json"] = "text"
    """``text``, or ``json``: an object a line."""


class PageSection(Section):
    """The web page of `resonance page`."""

    token: OptionalToken = None
    """Token of the [web page](page.md), needed with ``--host``."""


class InputSection(Section):
    """The input topics, and the paths of the parts of a record; paths are dotted."""

    topics: TopicNames = Field(min_length=1)
    """Topics to read, all with the same number of partitions."""
    format: Literal["json", "float32", "avro", "protobuf", "json_schema", "otlp_spans", "otlp_metrics", "otlp_logs"] = (
        "json"
    )
    """Format of values (docs/data.md)."""
    records: OptionalRecords = None
    """Where a message has its records, if many: path to their array, or ``.``, its value (docs/data.md)."""
    features: FeaturePaths = "features"
    """Paths to numbers, or to one array or object."""
    id_path: OptionalPath = None
    """Path to the record's id."""
    time_path: OptionalPath = None
    """Path to its time, RFC 3339 or milliseconds since 1970; else Kafka's timestamp."""
    dimension: OptionalCount = Field(default=None, ge=1)
    """Length of an array of features; else the first record's."""
    sparse: OptionalPath = None
    """Instead of `features`: path to sparse ones (docs/data.md)."""
    label_path: OptionalPath = None
    """Path to its labels (docs/labels.md)."""
    text_path: OptionalPath = None
    """Path to its text, of which its cluster gets keywords (docs/data.md)."""

    @model_serializer(mode="wrap")
    def _only_what_counts(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the default of `features` where `sparse` replaces it: written settings must be readable again."""
        values: dict[str, Any] = serialize(self)
        if self.sparse is not None:
            values.pop("features", None)
        return values


class SchemaRegistrySection(Section):
    """The Schema Registry with the schemas of the input."""

    url: OptionalText = None
    """Its URLs, separated by commas."""
    client: Properties = Field(default_factory=dict)
    """Entries go to confluent-kafka's client: ``basic.auth.user.info = "user:password"``, ``ssl.ca.location``."""

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, values: Any) -> Any:
        return gathered(values, "client")

    def __hash__(self) -> int:
        """Return a hash although the table of the client has none: readers of schemas are kept by their settings."""
        return hash((self.url, *self.client.items()))

    @property
    def urls(self) -> list[str]:
        """The single addresses."""
        return [each.strip() for each in (self.url or "").split(",") if each.strip()]


class LabelsSection(Section):
    """Labels that come later than their records, on a topic of their own."""

    topic: OptionalTopic = None
    """Their topic."""
    buffer_records: Count = Field(default=10_000, ge=1, le=1_000_000)
    """Newest records of a stream that can be labelled."""
    wait_records: Count = Field(default=1_000, ge=0, le=10_000)
    """Records and labels of its stream that a label waits for its record."""


class PrepareSection(Section):
    """How features are prepared before every engine: deterministic, and part of a stream's state."""

    scale: Literal["warmup", "given", "none"] = "warmup"
    """What becomes [0, 1]: the 1st to 99th percentile of the first records (``warmup``), `ranges` (``given``), or
    nothing (``none``, the default of sparse records)."""
    warmup_records: OptionalCount = Field(default=None, ge=1, le=1_000_000)
    """First records of a stream, which give its scale; else 200, or 500 if projected. With ``rescale`` the first 16 of
    them give one that serves until then."""
    project: Project = "auto"
    """Principal axes that replace the features, 1 to 64; 0: none. ``auto``: 16 from 33 features on, unless the engine
    learns labels or is defined on [0, 1]."""
    robust: Robust = "auto"
    """Down-weights features with one value in nine tenths of the records, and flags and categories that go together
    with no other one, compresses skewed ones, spreads even grids over their steps. ``auto``: with ``modal`` and a
    warm-up."""
    rescale: Robust = "auto"
    """Re-fits ranges that most records have left (docs/tuning.md). ``auto``: as `robust`, unless projected."""
    missing: Missing = "reject"
    """For a missing feature: ``reject`` the record, the warm-up's ``mean``, or a number."""
    log1p: Names = ()
    """Features that become log(1 + x); sparse: ``*`` is all."""
    categories: Categories = Field(default_factory=dict)
    """Categorical features, each with its values; others are like none of them."""
    ranges: Ranges = Field(default_factory=dict)
    """With ``scale = "given"``: feature -> [becomes 0, becomes 1]; sparse: from 0, ``*`` is every other feature."""


class EngineSection(BaseModel):
    """The algorithm and its own parameters."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str = "modal"
    """The engine; docs/engines/README.md compares them."""
    preset: OptionalText = None
    """``paper``: as in the engine's paper, except for parameters given here."""

    @cached_property
    def given(self) -> dict[str, Any]:
        """The engine's own parameters, as they were given."""
        return dict(self.__pydantic_extra__ or {})


class DriftSection(Section):
    """The watch for changes of the data (docs/drift.md)."""

    detect: bool = True
    """Watches dense records."""
    rarity: Rarity = "auto"
    """Records of a stream between false events, at least. ``auto``: a hundredth of `alerts.rarity`."""


class DeliverySection(Section):
    """How outputs and offsets are written."""

    mode: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """``exactly_once``: transactions; ``at_least_once``: identical repeats after a crash."""
    commit_interval: Seconds = Field(default=0.1, gt=0.0, le=60.0)
    """Seconds between commits; in a backlog up to 0.5."""
    transaction_timeout: Seconds = Field(default=60.0, ge=1.0, le=900.0)
    """Seconds until brokers abort an open transaction."""


class SnapshotsSection(Section):
    """How often snapshots of streams are written."""

    records: Count = Field(default=10_000, ge=1)
    """Least records of a partition between snapshots of a stream; at most 500 before the first."""
    ratio: Seconds = Field(default=4.0, ge=0.0)
    """Least bytes of input per byte of snapshots."""
    archive_interval: Seconds = Field(default=3600.0, ge=0.0)
    """Seconds between archives of a partition; 0: none."""


class LimitsSection(Section):
    """Limits of one partition; records beyond them become dead letters."""

    memory: Memory = "auto"
    """Bytes of a [worker](tuning.md#memory). ``auto``: half of the container or machine."""
    streams: Count = Field(default=10_000, ge=1)
    """Streams of a partition."""
    streams_in_memory: Count = Field(default=10_000, ge=0)
    """Models that stay in memory, others in a temporary file (TMPDIR); 0: all."""
    stream_ttl: Seconds = Field(default=0.0, ge=0.0, le=100 * 365 * 86_400.0)
    """Seconds, by the records' times, after which a stream without any ends; 0: never. Needs ``stream = "key"``."""
    record_bytes: Count = Field(default=1_000_000, ge=1)
    """Bytes of a record's value."""


class DlqSection(Section):
    """When a partition pauses because of its dead letters."""

    max_share: Seconds = Field(default=0.5, gt=0.0, le=1.0)
    """Share of dead letters among the last 1,000 records above which a partition pauses; 1: never."""


class AlertsSection(Section):
    """When something needs a look (docs/alerts.md)."""

    rarity: Seconds = Field(default=1e7, ge=1e3, le=1e15)
    """Records between false alerts, over all streams."""
    off: AlertRules = ()
    """Rules that are off: ``unlike``, ``new_cluster``, ``share``, ``drift_open``, ``one_cluster``, ``unconfirmed``,
    ``dead_letters``, ``silent``, ``missing``."""
    token: OptionalToken = None
    """For ``alerts --to``: PagerDuty's key, or a bearer token."""


class TopicsSection(Section):
    """Names of the topics, and how they are created."""

    pattern: TopicPattern = "{name}.{kind}"
    """Their names, from `name` and the kind of topic, such as ``dead-letters``."""
    routes_partitions: OptionalCount = Field(default=None, ge=1, le=100_000)
    """Partitions of the routes; else as existing, or as the input. Another number needs new models."""
    create: bool = True
    """Creates missing topics."""
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
        "incidents",
    )


class OutputSection(Section):
    """The form of the outputs."""

    envelope: Literal["events", "cloudevents", "plain"] = "events"
    """CloudEvents headers: on all but assignments (``events``), on all (``cloudevents``), or on none (``plain``)."""
    assignments: Literal["all", "changes", "novel", "none"] = "all"
    """Which are written. ``changes``: those with another cluster or status than the one before."""
    clusters_grace: Seconds = Field(default=7 * 86_400.0, ge=0.0, le=10 * 365 * 86_400.0)
    """Seconds, by the records' times, until an ended cluster leaves its topic."""
    include: Paths = ()
    """Members of the input that assignments copy."""
