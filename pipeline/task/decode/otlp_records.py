"""Takes the messages apart that the OpenTelemetry Collector's Kafka exporter writes (``otlp_spans`` and its like).

A message is an export request, in Protobuf or in OTLP's JSON. JSON becomes the same message of the library first, so
that both forms have the same records. Records are a function of their message alone: no rate of a cumulative sum, which
would need the message before.

Spans and log records become a record each. Metrics become a record for each resource and collection, because a point
has one number, and what is clustered is all that a resource measures at a time.
"""

import importlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import orjson
from resonance.pipeline.errors import missing_extra
from resonance.pipeline.records import MOST_ELEMENTS
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_objects import parsed_json

EXTRA: Final = "otlp"
"""The extra with the messages."""

SIGNALS: Final = {"otlp_spans": "trace", "otlp_metrics": "metrics", "otlp_logs": "logs"}
"""What the library calls the formats."""

MOST_POINTS: Final = 10 * MOST_ELEMENTS
"""Data points of one message, at most."""

MOST_REPEATED: Final = 32_000_000
"""Bytes that the records of a message repeat of their resources and metrics, at most."""

COLLECTION: Final = 1_000_000_000
"""Nanoseconds between two collections, at least: the scrapers of one take their times one after the other."""

NO_VALUE: Final = 1
"""Flag of a data point that says that there is none."""

Members = dict[str, Any]

_Point = tuple[int, str, Members]


class OtlpReader:
    """Takes messages of one of the `SIGNALS` apart; `ConfigurationError` where the library is not installed."""

    def __init__(self, form: str) -> None:
        self._form = form
        signal = SIGNALS[form]
        try:
            own = importlib.import_module(f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2")
            values = importlib.import_module(f"opentelemetry.proto.{signal}.v1.{signal}_pb2")
            from resonance.pipeline.task.decode.otlp_json import OtlpFields  # noqa: PLC0415
        except ImportError as error:
            raise missing_extra(f"input.format = {form}", "opentelemetry-proto", EXTRA) from error
        self._name = f"Export{signal.capitalize()}ServiceRequest"
        self._request = getattr(own, self._name)
        self._fields = OtlpFields(self._request.DESCRIPTOR, {})
        take: dict[str, Callable[..., Iterator[Members]]] = {"trace": _spans, "metrics": _metrics, "logs": _logs}
        self._take = partial(take[signal], values=values)

    def records(self, value: bytes) -> list[Members]:
        """Return the records of a message, one more than a message may have where it has too many.

        A `FaultError` says why it has none.
        """
        # No request begins with this byte. One that begins with a line break may go on as JSON does.
        is_json = value[:1] == b"{"
        try:
            if is_json:
                request = self._fields.message(self._request, _object(value))
            else:
                request = self._request.FromString(value)
        except (FaultError, MemoryError):
            raise
        except Exception as error:  # the library has errors of several kinds
            form = "JSON" if is_json else "Protobuf"
            text = f"the value is no {self._name} in {form}, which input.format = {self._form} reads"
            raise FaultError("decode", "schema_violation", text) from error
        found = list(islice(self._take(request, repeats=_Repeats(), is_json=is_json), MOST_ELEMENTS + 1))
        if not any("time" in record for record in found):
            # What is of another signal reads as if it were empty.
            others = " or ".join(form for form in SIGNALS if form != self._form)
            text = f"no record with a time in the {self._name}; it may be of another signal (input.format = {others})"
            raise FaultError("decode", "wrong_schema", text)
        return found


def _object(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        # Raises what is wrong.
        return parsed_json(value)


class _Repeats:
    """Counts what the records of a message repeat of it."""

    def __init__(self) -> None:
        self._left = MOST_REPEATED

    def take(self, size: int) -> None:
        """Raise `FaultError` where some bytes more are too many."""
        self._left -= size
        if self._left < 0:
            text = f"its records repeat more than {MOST_REPEATED:,} bytes of their resources and metrics"
            raise FaultError("limit", "record_too_large", f"{text}; send fewer in a message")


def _spans(request: Any, values: Any, repeats: _Repeats, *, is_json: bool) -> Iterator[Members]:
    kinds = _names(values.Span.SpanKind, "SPAN_KIND_")
    codes = _names(values.Status.StatusCode, "STATUS_CODE_")
    failed = values.Status.STATUS_CODE_ERROR
    for each in request.resource_spans:
        resource = _resource(each.resource)
        repeats.take(_size(resource) * sum(len(scope.spans) for scope in each.scope_spans))
        for scope in each.scope_spans:
            for span in scope.spans:
                kind, code = span.kind, span.status.code
                begun, ended = span.start_time_unix_nano, span.end_time_unix_nano
                record = {
                    **resource,
                    "name": span.name,
                    "kind": kinds.get(kind) or str(kind),
                    "status": codes.get(code) or str(code),
                    "error": int(code == failed),
                    **_ids(span, is_json=is_json),
                }
                if begun and ended:
                    record["duration_ms"] = (ended - begun) / 1e6
                yield _timed(record, ended or begun, span)


def _logs(request: Any, values: Any, repeats: _Repeats, *, is_json: bool) -> Iterator[Members]:
    for each in request.resource_logs:
        resource = _resource(each.resource)
        repeats.take(_size(resource) * sum(len(scope.log_records) for scope in each.scope_logs))
        for scope in each.scope_logs:
            for log in scope.log_records:
                record = {**resource, "severity": log.severity_number, **_ids(log, is_json=is_json)}
                if log.event_name:
                    record["event"] = log.event_name
                if (body := _value(log.body)) is not None:
                    record |= {"body": body, "body_length": len(_text(body))}
                record = _timed(record, log.time_unix_nano or log.observed_time_unix_nano, log)
                if template := record["attributes"].get("log.record.template"):
                    record["template"] = template
                yield record


def _timed(record: Members, time: int, of: Any) -> Members:
    """Add the time, in nanoseconds, where it is known, and the attributes."""
    if time:
        record["time"] = time // 1_000_000
    record["attributes"] = _attributes(of.attributes)
    return record


def _metrics(request: Any, values: Any, repeats: _Repeats, *, is_json: bool) -> Iterator[Members]:
    left = MOST_POINTS
    # Each scraper of a host sends the resource again.
    own: dict[bytes, tuple[Members, list[_Point]]] = {}
    for each in request.resource_metrics:
        named = each.resource.SerializeToString(deterministic=True)
        if named not in own:
            own[named] = _resource(each.resource), []
        for metric in (metric for scope in each.scope_metrics for metric in scope.metrics):
            kind = metric.WhichOneof("data")
            data = getattr(metric, kind) if kind else None
            found = data.data_points if data else ()
            left -= len(found)
            if left < 0:
                text = f"more than {MOST_POINTS:,} data points in a message; send fewer in each"
                raise FaultError("limit", "too_many_records", text)
            repeats.take(len(metric.name) * len(found))
            is_delta = getattr(data, "aggregation_temporality", None) == values.AGGREGATION_TEMPORALITY_DELTA
            is_rate = is_delta and getattr(data, "is_monotonic", True)
            own[named][1].extend(_point(metric.name, point, is_rate=is_rate) for point in found)
    for resource, points in own.values():
        for collection in _collections(points):
            repeats.take(_size(resource))
            yield resource | collection


def _point(name: str, point: Any, *, is_rate: bool) -> _Point:
    """Return the time of a data point, the name of its series, and its numbers."""
    found: Members = {}
    time, start = point.time_unix_nano, point.start_time_unix_nano
    if not point.flags & NO_VALUE:
        if hasattr(point, "count"):
            found = _distribution(point)
        elif which := point.WhichOneof("value"):
            found = {"value": getattr(point, which)}
        amount = found.get("value", found.get("count"))
        if is_rate and 0 < start < time and amount is not None:
            found["rate"] = 1e9 * amount / (time - start)
    return time, _series(name, point.attributes), found


def _distribution(point: Any) -> Members:
    """Return the numbers of a point of a histogram or a summary, which has no extremes."""
    is_summary = not hasattr(point, "max")
    found: Members = {"count": point.count}
    if is_summary or point.HasField("sum"):
        found["sum"] = point.sum
        if point.count:
            found["mean"] = point.sum / point.count
    if not is_summary:
        found |= {name: getattr(point, name) for name in ("min", "max") if point.HasField(name)}
    return found


def _collections(points: Iterable[_Point]) -> Iterator[Members]:
    """Yield a record for the points of each collection, which has each series once, as its first scope has it."""
    found: Members = {}
    first, times = 0, dict[str, int]()
    for time, name, numbers in sorted(points, key=itemgetter(0)):
        if found and (time - first >= COLLECTION or time > times.get(name, time)):
            yield found
            found = {}
        if not found:
            first, times, found = time, {}, {"metrics": {}}
        if time:
            found["time"] = time // 1_000_000
        times.setdefault(name, time)
        found["metrics"].setdefault(name, numbers)
    if found:
        yield found


def _series(name: str, attributes: Iterable[Any]) -> str:
    """Return the name of a metric, with the attributes of one of its points: ``system.memory.usage{state=used}``."""
    found = sorted(_attributes(attributes).items())
    return f"{name}{{{','.join(f'{key}={_text(each)}' for key, each in found)}}}" if found else name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _size(members: Members) -> int:
    return len(orjson.dumps(members))


def _resource(resource: Any) -> Members:
    """Return what all records of a resource have."""
    found = _attributes(resource.attributes)
    service = found.get("service.name")
    return ({} if service is None else {"service": service}) | {"resource": found}


def _attributes(given: Iterable[Any]) -> Members:
    return {each.key: _value(each.value) for each in given}


def _value(given: Any) -> Any:
    """Return an attribute's value as JSON has it; bytes become base64 text."""
    kind = given.WhichOneof("value")
    if kind is None:
        return None
    found = getattr(given, kind)
    if kind == "array_value":
        return list(map(_value, found.values))
    if kind == "kvlist_value":
        return _attributes(found.values)
    return b64encode(found).decode() if kind == "bytes_value" else found


def _ids(given: Any, *, is_json: bool) -> Members:
    """Return the ids of a span or a log record that are set, as hexadecimal text."""
    found = {"trace_id": given.trace_id, "span_id": given.span_id}
    if parent := getattr(given, "parent_span_id", b""):
        found["parent_span_id"] = parent
    return {name: _id(raw, is_json=is_json) for name, raw in found.items() if raw}


def _id(raw: bytes, *, is_json: bool) -> str:
    # OTLP's JSON has them as hexadecimal text, which the library reads as base64 into more bytes than an id has.
    return b64encode(raw).decode().lower() if is_json and len(raw) in (12, 24) else raw.hex()


def _names(values: Any, prefix: str) -> dict[int, str]:
    return {number: name.removeprefix(prefix) for name, number in values.items()}
