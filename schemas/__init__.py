"""What travels on the bus: typed payloads, their JSON Schemas, and the headers around them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from resonance.schemas.alert import Alert, AlertFeature, AlertKind, AlertReason, AlertRule, AlertSeverity
from resonance.schemas.assignment import Assignment, AssignmentStatus
from resonance.schemas.automatic_names import AutomaticNames
from resonance.schemas.cloudevents import CloudEvents, Envelope, Header, source_uri, without_envelope
from resonance.schemas.cluster import Cluster, ClusterEnd, ClusterExample, describe_cluster, describe_end
from resonance.schemas.cluster_event import ClusterEvent, ClusterEventKind, ClusterSnapshot, EventReason, SalientFeature
from resonance.schemas.cluster_life import ClusterLife
from resonance.schemas.cluster_name import ClusterName
from resonance.schemas.cluster_names import ClusterNames, PresentName
from resonance.schemas.cluster_table import ClusterTable, EventGapError
from resonance.schemas.common import Cause, Source
from resonance.schemas.dead_letter import DeadLetter, DeadLetterClass, DeadLetterStage, dead_letter_headers
from resonance.schemas.drift_event import (
    DriftEvent,
    DriftEventKind,
    DriftFeature,
    DriftPlace,
    DriftScope,
    DriftShare,
    DriftUnit,
    UnitChange,
)
from resonance.schemas.files import SCHEMA_NAMES, SchemaName, load_schema, schema_id
from resonance.schemas.incident import Incident, IncidentFeature, IncidentKind

if TYPE_CHECKING:
    from resonance.schemas.output_reader import Output, OutputKind, OutputReader
    from resonance.schemas.subscriber import Subscriber

__all__ = [
    "SCHEMA_NAMES",
    "Alert",
    "AlertFeature",
    "AlertKind",
    "AlertReason",
    "AlertRule",
    "AlertSeverity",
    "Assignment",
    "AssignmentStatus",
    "AutomaticNames",
    "Cause",
    "CloudEvents",
    "Cluster",
    "ClusterEnd",
    "ClusterEvent",
    "ClusterEventKind",
    "ClusterExample",
    "ClusterLife",
    "ClusterName",
    "ClusterNames",
    "ClusterSnapshot",
    "ClusterTable",
    "DeadLetter",
    "DeadLetterClass",
    "DeadLetterStage",
    "DriftEvent",
    "DriftEventKind",
    "DriftFeature",
    "DriftPlace",
    "DriftScope",
    "DriftShare",
    "DriftUnit",
    "Envelope",
    "EventGapError",
    "EventReason",
    "Header",
    "Incident",
    "IncidentFeature",
    "IncidentKind",
    "Output",
    "OutputKind",
    "OutputReader",
    "PresentName",
    "SalientFeature",
    "SchemaName",
    "Source",
    "Subscriber",
    "UnitChange",
    "dead_letter_headers",
    "describe_cluster",
    "describe_end",
    "load_schema",
    "schema_id",
    "source_uri",
    "without_envelope",
]


def __getattr__(name: str) -> Any:
    """Import what reads when it is needed: it alone needs a Kafka client."""
    if name not in ("Output", "OutputKind", "OutputReader", "Subscriber"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.subscriber"), name)
