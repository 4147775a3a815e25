"""The fields of the settings, and the values derived from them; `settings` reads and checks them."""

import socket
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal, get_args

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from resonance import engine as engines
from resonance.engine.base import Engine
from resonance.engine.drift.layout import PARAMETERS as DRIFT_PARAMETERS
from resonance.engine.errors import ParameterError
from resonance.engine.parameters import check_parameters
from resonance.engine.prepare import MAX_AXES, REVISION, WARMUP_RECORDS, Preparation
from resonance.engine.prepare.sparse_scale import REVISION as SPARSE_REVISION
from resonance.engine.prepare.sparse_scale import SparseScale
from resonance.engine.sparse import SparseEngine
from resonance.pipeline.config.messages import STREAM_CHOICES, stream_not_set
from resonance.pipeline.config.sections import (
    TOPIC_PATTERN,
    AlertsSection,
    BrokerSection,
    DeliverySection,
    DlqSection,
    DriftSection,
    EngineSection,
    InputSection,
    LabelsSection,
    LimitsSection,
    OutputSection,
    PageSection,
    PrepareSection,
    SchemaRegistrySection,
    SnapshotsSection,
    TopicsSection,
    WorkerSection,
)
from resonance.pipeline.config.sources import PREFIX
from resonance.pipeline.config.values import OptionalText, Start, parameter_value
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.json_paths import parse_path, path_name
from resonance.schemas import AlertRule

FIELD: Final = "field:"
"""Prefix of a `Settings.stream` that names a member of the record."""

DRIFT_BOUND: Final = 100.0
"""How many times as rare as `drift.rarity` bounds them false drift events are at least; measured: 600 times."""


class Fields(BaseSettings):
    """Every setting, and the values derived from the settings."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        enable_decoding=False,
    )

    name: str = Field(default="resonance", pattern=TOPIC_PATTERN, min_length=1, max_length=200)
    """Name of the deployment, and so of its group and topics."""
    stream: str | None = None
    """Which records share one model (docs/rekeying.md): ``partition``, ``key``, ``topic`` or ``field:<path>``."""
    hierarchy: Literal["local", "keyed"] = "local"
    """Where ``hcaea`` learns below its root: beside it (``local``), or on all workers (``keyed``)."""
    start: Start = "earliest"
    """Where a new group begins: ``earliest``, ``latest``, or a time of Kafka's timestamps."""
    shadow_of: OptionalText = Field(default=None, pattern=TOPIC_PATTERN)
    """The deployment that this one shadows (docs/shadow.md)."""
    broker: BrokerSection = Field(default_factory=BrokerSection)
    worker: WorkerSection = Field(default_factory=WorkerSection)
    page: PageSection = Field(default_factory=PageSection)
    input: InputSection
    """The input topics, and dotted paths of the parts of a record."""
    schema_registry: SchemaRegistrySection = Field(default_factory=SchemaRegistrySection)
    labels: LabelsSection = Field(default_factory=LabelsSection)
    """[Labels](labels.md) on a topic of their own."""
    prepare: PrepareSection = Field(default_factory=PrepareSection)
    engine: EngineSection = Field(default_factory=EngineSection)
    drift: DriftSection = Field(default_factory=DriftSection)
    """The watch for [drift](drift.md); a change here restarts it."""
    delivery: DeliverySection = Field(default_factory=DeliverySection)
    snapshots: SnapshotsSection = Field(default_factory=SnapshotsSection)
    limits: LimitsSection = Field(default_factory=LimitsSection)
    """Limits of one partition; records beyond them become dead letters."""
    dlq: DlqSection = Field(default_factory=DlqSection)
    """When a partition [pauses](metrics.md#paused-partitions) because of its dead letters."""
    alerts: AlertsSection = Field(default_factory=AlertsSection)
    """The [rules](alerts.md)."""
    topics: TopicsSection = Field(default_factory=TopicsSection)
    """Names of the topics, else ``<name>.<kind>``, and how they are created."""
    output: OutputSection = Field(default_factory=OutputSection)

    @field_validator("stream", mode="before")
    @classmethod
    def _available(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(FIELD):
            parse_path(value.removeprefix(FIELD))
        elif value is not None and value not in ("partition", "key", "topic"):
            raise ValueError("must be one of\n" + "\n".join(f"  {choice}" for choice in STREAM_CHOICES))
        return value

    @cached_property
    def engine_class(self) -> type[Engine]:
        """Class of the engine that learns where the input is read: the chosen engine, or its root alone."""
        return engines.HCAEARoot if self.is_keyed else engines.ENGINES[self.engine.name]

    @cached_property
    def engine_parameters(self) -> dict[str, Any]:
        """Checked value of every engine parameter: given values win over the preset, the preset over the defaults."""
        declared = self.engine_class.parameters
        preset = self.engine_class.presets[self.engine.preset] if self.engine.preset else {}
        by_name = {parameter.name: parameter for parameter in declared}
        given = {name: parameter_value(value, by_name.get(name)) for name, value in self.engine.given.items()}
        # With given ranges the engine sees 0 to 1, so an engine that needs the range does not take it from the stream.
        is_given = self.prepare.scale == "given" and self.project == 0
        scales = is_given and {"low", "high", "ranges"} <= by_name.keys()
        known = {"low": 0.0, "high": 1.0} if scales and not {"low", "high", "ranges"} & given.keys() else {}
        return check_parameters(declared, {**preset, **known, **given})

    @property
    def features(self) -> tuple[str, ...] | None:
        """Names of the features from the settings; None where they come with the data."""
        given = self.input.features
        if not isinstance(given, str):
            return tuple(map(path_name, given))
        return None

    @property
    def preparation_revision(self) -> int:
        """State revision of the preparation that the settings choose."""
        return REVISION if self.input.sparse is None else SPARSE_REVISION

    def preparation(self, features: Sequence[str]) -> Preparation:
        """Return a new preparation for a stream with these features.

        Raises `ParameterError` where the settings name an unknown feature, lack one, or leave more than the engine
        takes.
        """
        prepare = self.prepare
        missing: Any = prepare.missing
        preparation = Preparation(
            features,
            scale=prepare.scale,
            warmup_records=prepare.warmup_records,
            missing=missing,
            log1p=prepare.log1p,
            categories=prepare.categories,
            ranges=prepare.ranges,
            clip=self.engine_class.unit_interval,
            project=self.project,
            robust=self.robust,
            rescale=self.rescale,
        )
        if self.rescale and not self.engine_class.rescales:
            allowed = f"false or auto, because {self.engine.name} cannot go on in other units"
            raise ParameterError("rescale", True, allowed)
        self._check_most(preparation.dimension)
        return preparation

    def sparse_scale(self) -> SparseScale:
        """Return the scale for the values of sparse records; raise `ParameterError` for settings without a meaning."""
        prepare = self.prepare
        return SparseScale(prepare.scale, prepare.log1p, prepare.ranges, clip=self.engine_class.unit_interval)

    def _check_most(self, features: int) -> None:
        """Refuse more features than the engine takes."""
        most = self.engine_class.most_features
        if most is not None and features > most:
            allowed = (
                f"from 1 to {MAX_AXES} principal axes, because a record has {features:,} features and "
                f"{self.engine.name} takes at most {most:,}; or choose another engine.name, or leave features out"
            )
            raise ParameterError("project", self.prepare.project, allowed)
        most = self.engine_parameters.get("max_features")
        if most is not None and features > most:
            raise ParameterError("engine.max_features", most, f"at least {features:,}, the features of a record")

    def _decides(self, wanted: bool) -> bool:
        """Return whether a step that the engine wants is done under ``auto``: only with a warm-up, on dense records."""
        return wanted and self.prepare.scale == "warmup" and self.input.sparse is None

    @property
    def project(self) -> int | Literal["auto"]:
        """Number of principal axes that records are projected on; ``auto`` where their features decide it."""
        project = self.prepare.project
        return 0 if project == "auto" and not self._decides(self.engine_class.projects) else project

    @property
    def robust(self) -> bool:
        """Whether flags and rare counters count little, and skewed features are bent."""
        robust = self.prepare.robust
        return self._decides(self.engine_class.robust) if robust == "auto" else robust

    @property
    def rescale(self) -> bool:
        """Whether a range that records have left is re-fitted."""
        rescale = self.prepare.rescale
        return self._decides(self.engine_class.rescales) if rescale == "auto" else rescale

    @cached_property
    def may_project(self) -> bool:
        """Whether records of any stream can be projected, as far as the settings decide it."""
        features, count = self.features, self.input.dimension
        if features is None and count is not None:
            features = tuple(f"f{number}" for number in range(count))
        if self.project == 0 or features is None:
            return self.project != 0
        try:
            return self.preparation(features).projects
        except ParameterError:
            # Settings and features do not fit together; the error of the first record names them.
            return True

    @property
    def preparing(self) -> dict[str, Any]:
        """Settings of the preparation as a snapshot stores them.

        Where no record is projected, whatever its features, they equal those of the releases without projection.
        """
        values = self.prepare.model_dump(mode="json")
        if self.project == 0:
            del values["project"]
            values["warmup_records"] = values["warmup_records"] or WARMUP_RECORDS
        for name, is_on in (("robust", self.robust), ("rescale", self.rescale)):
            if not is_on:
                del values[name]
        return values

    @property
    def is_framed(self) -> bool:
        """Whether values of the input begin with the id of their schema."""
        return self.input.format in ("avro", "protobuf", "json_schema")

    @property
    def is_otlp(self) -> bool:
        """Whether messages of the input are export requests of OpenTelemetry."""
        return self.input.format.startswith("otlp_")

    @property
    def has_many(self) -> bool:
        """Whether a message of the input has many records, each of them JSON."""
        return self.input.records is not None or self.is_otlp

    @property
    def finds_features(self) -> bool:
        """Whether the first usable record of a partition decides which features all its records have."""
        return self.features is None and self.input.sparse is None

    @property
    def learns_zeros(self) -> bool:
        """Whether the engine takes sparse records, and learns those without any entry."""
        engine = self.engine_class
        return issubclass(engine, SparseEngine) and engine.learns_zeros(self.engine_parameters)

    def topic(self, kind: str) -> str:
        """Return the name of a topic of the deployment, by its kind (`TopicsSection.KINDS`)."""
        if kind not in TopicsSection.KINDS:
            raise ValueError(f"{kind!r} is no kind of topic: {', '.join(TopicsSection.KINDS)}")
        return self.topics.pattern.format(name=self.name, kind=kind.replace("_", "-"))

    @property
    def group(self) -> str:
        """Consumer group of the deployment."""
        return self.name

    @cached_property
    def worker_id(self) -> str:
        """Name of this worker, unique in the deployment."""
        return self.worker.id or f"{socket.gethostname()}-{self.worker.web_port}"

    @property
    def transactional_id(self) -> str:
        """Transactional id of this worker."""
        return f"{self.name}-{self.worker_id}"

    @property
    def by_key(self) -> bool:
        """Whether a partition can have several streams, each with a key."""
        return self.stream not in (None, "partition")

    @property
    def stream_field(self) -> tuple[str, ...] | None:
        """Path of the member that is the key of a record's stream; None where no member is."""
        given = self.stream or ""
        return parse_path(given.removeprefix(FIELD)) if given.startswith(FIELD) else None

    @property
    def is_rekeyed(self) -> bool:
        """Whether records are repartitioned by stream, instead of learned where they are read."""
        return self.stream == "topic" or self.stream_field is not None

    @property
    def is_keyed(self) -> bool:
        """Whether the models below a stream's root learn in the partitions that the routes of its nodes lead to."""
        return self.hierarchy == "keyed"

    @property
    def is_routed(self) -> bool:
        """Whether the deployment has a topic of routes, and with it a second stage that learns."""
        return self.is_rekeyed or self.is_keyed

    @property
    def takes_labels(self) -> bool:
        """Whether the engine learns from labels."""
        return issubclass(self.engine_class, engines.LabelEngine)

    @cached_property
    def drift_parameters(self) -> dict[str, Any] | None:
        """Parameters of the watch for changes; None where records are not watched: only dense ones are."""
        if not self.drift.detect or self.input.sparse is not None:
            return None
        rarity = max(self.alerts.rarity / DRIFT_BOUND, 100.0) if self.drift.rarity == "auto" else self.drift.rarity
        own = {"rarity": rarity, "returning": 2, "leaps": 1, "relations": 1}
        return {each.name: each.default for each in DRIFT_PARAMETERS} | own

    @property
    def emits_drift(self) -> bool:
        """Whether drift events are emitted: of the data, of ranges, or of how the engine groups the features."""
        return self.drift_parameters is not None or self.rescale or bool(getattr(self.engine_class, "clustered", False))

    @property
    def alert_rules(self) -> frozenset[AlertRule]:
        """Rules of the alerts that are on: `silent` where streams are keys, `one_cluster` where they are partitions.

        `missing` is where records may lack features.
        """
        unfit: set[AlertRule] = {"one_cluster" if self.by_key else "silent"}
        if self.prepare.missing == "reject" or self.input.sparse is not None:
            unfit.add("missing")
        return frozenset(get_args(AlertRule)) - unfit - {*self.alerts.off}

    @property
    def raises_alerts(self) -> bool:
        """Whether any rule of the alerts is on; those of a shadow would be a second call about what is known."""
        return self.shadow_of is None and bool(self.alert_rules)

    @property
    def logs(self) -> tuple[str, ...]:
        """Every topic that workers process: the inputs, and the topics of labels and routes where there are any."""
        labels = () if self.labels.topic is None else (self.labels.topic,)
        return (*self.input.topics, *labels, *((self.topic("routes"),) if self.is_routed else ()))

    def check_local(self, what: str, instead: str) -> None:
        """Refuse the command or option `what` where `hierarchy` is ``keyed``; the error names `instead` as remedy."""
        if self.is_keyed:
            raise ConfigurationError(f"{what} is not available with hierarchy = keyed: {instead}")

    def check_stream(self, partitions: int) -> str:
        """Return which records share a model, for input topics with this number of partitions.

        Raises `ConfigurationError`, which lists the choices, where there are several and `stream` is not set.
        """
        if self.stream is None and partitions > 1:
            raise stream_not_set(self.input.topics, partitions)
        return self.stream or "partition"

    def derived(self) -> dict[str, str]:
        """Return, by name, the derived values of settings that are not given: the worker's id."""
        return {} if self.worker.id else {"worker.id": self.worker_id}

    def dump(self) -> dict[str, Any]:
        """Return all settings as plain values for display: secrets masked, engine parameters complete."""
        values = self.model_dump(mode="json")
        # None means no limit here, and would be shown as not set.
        parameters = {name: "none" if value is None else value for name, value in self.engine_parameters.items()}
        values["engine"] = {"name": self.engine.name, "preset": self.engine.preset, **parameters}
        return values
