"""Rules for settings that are valid alone but do not go together."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import SecretStr
from resonance import engine as engines
from resonance.engine.errors import ParameterError
from resonance.engine.sparse import SparseEngine
from resonance.pipeline.config import properties
from resonance.pipeline.config.fields import Fields
from resonance.pipeline.config.likely import settings_meant
from resonance.pipeline.config.messages import ValueOrigins, configuration_error, prepared_setting
from resonance.pipeline.config.sections import EngineSection, TopicsSection
from resonance.pipeline.config.values import TOPIC_CHARACTERS
from resonance.pipeline.errors import nearest, offered

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Hosts on which no secret leaves the machine."""

LABELS: Final = 1_000
"""Most labels of a stream; there is a bound because every assignment names all of them."""


class Problem(NamedTuple):
    """A setting that cannot be used beside the others."""

    setting: str
    value: object
    allowed: str
    """What would be accepted."""
    remedy: str = ""
    """What to do, where `allowed` does not say it."""


def check(settings: Fields, origins: ValueOrigins) -> None:
    """Refuse settings that do not go together.

    The `ConfigurationError` names the setting, its value, what is allowed, and what to do.
    """
    for rule in RULES:
        for setting, value, allowed, remedy in rule(settings):
            raise configuration_error(setting, value, allowed, origins.of(setting.split(".", 1)), remedy)


def _broker(settings: Fields) -> Iterator[Problem]:
    for name, value in settings.broker.librdkafka.items():
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if allowed := properties.refusal(name, text):
            # A misspelt name may be that of a secret.
            shown = SecretStr(text) if allowed.startswith(properties.UNKNOWN) else value
            yield Problem(f"broker.librdkafka.{name}", shown, allowed)
        if name == "sasl.oauthbearer.token.endpoint.url":
            yield from _token_endpoint(f"broker.librdkafka.{name}", text)
    given = settings.broker.librdkafka
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    method = given.get("sasl.oauthbearer.method", "default")
    if mechanism == "OAUTHBEARER" and method != "oidc" and "enable.sasl.oauthbearer.unsecure.jwt" not in given:
        yield Problem(
            "broker.librdkafka.sasl.oauthbearer.method", method, "must be oidc with sasl.mechanism = OAUTHBEARER"
        )


def _token_endpoint(name: str, url: str) -> Iterator[Problem]:
    yield from _log_in(name, url, "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret")
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        yield Problem(name, url, "must begin with https://: the client's secret is sent there")


def _log_in(name: str, url: str, place: str) -> Iterator[Problem]:
    """Refuse an address with a log-in, which belongs in another place."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        shown = url.replace(f"{parts.netloc.rpartition('@')[0]}@", "***@")
        yield Problem(name, shown, f"must hold no log-in; it belongs in {place}")


def _worker(settings: Fields) -> Iterator[Problem]:
    worker = settings.worker
    if worker.processes != "auto" and worker.web_port + worker.processes > 65_535 and worker.processes > 1:
        yield Problem(
            *("worker.processes", worker.processes, f"must be at most {65_535 - worker.web_port}"),
            "each has a port above worker.web_port, which may be lower",
        )


def _engine(settings: Fields) -> Iterator[Problem]:
    name, preset = settings.engine.name, settings.engine.preset
    if name not in engines.ENGINES:
        known = sorted(engines.ENGINES)
        yield Problem("engine.name", name, f"must be one of {', '.join(known)}{nearest(name, known)}")
    if settings.is_keyed and name != "hcaea":
        allowed = f"is for engine.name = hcaea alone, {name} has no models below its root; choose hierarchy = local"
        yield Problem("hierarchy", "keyed", allowed)
    presets = sorted(settings.engine_class.presets)
    if preset and preset not in presets:
        allowed = f"must be one of {', '.join(presets)}" if presets else f"{name} has no presets"
        having = [other for other, each in engines.ENGINES.items() if preset in each.presets]
        remedy = _other_engine(settings, "engine.preset", f"preset {preset}", having)
        yield Problem("engine.preset", preset, allowed + nearest(preset, presets), remedy)
    try:
        engines.make_engine(name, settings.engine_parameters)
    except ParameterError as error:
        setting = f"engine.{error.name}"
        parameters = {other: {p.name for p in each.parameters} for other, each in engines.ENGINES.items()}
        meant = [error.name]
        # The engine offers what it has itself.
        if not any(error.name in names for names in parameters.values()) and not error.allowed.endswith("?)"):
            own, every = sorted(EngineSection.model_fields), sorted(set().union(*parameters.values()))
            found = settings_meant(setting, {"engine": own}) or settings_meant(setting, {"engine": every})
            meant = [each.removeprefix("engine.") for each in found]
        having = [other for other, names in parameters.items() if names.intersection(meant)]
        remedy = _other_engine(settings, setting, " or ".join(meant), having)
        near = offered(f"engine.{each}" for each in meant if each != error.name)
        yield Problem(setting, error.value, f"must be {error.allowed}{near}", remedy)


def _other_engine(settings: Fields, setting: str, word: str, having: Sequence[str]) -> str:
    """Return the remedy for a value that only other engines have; empty where no engine, or this one, has it.

    Settings that were written for another engine apply to the default engine where `engine.name` is left out.
    """
    name = settings.engine.name
    if name in having or not having:
        return ""
    chosen = name if "name" in settings.engine.model_fields_set else f"{name}, the default,"
    others = f"{', '.join(having)} {'has' if len(having) == 1 else 'have'} it"
    return f"{chosen} has no {word}, {others}: set engine.name to that engine, or leave {setting} out"


def _hierarchy(settings: Fields) -> Iterator[Problem]:
    allowed = ""
    if settings.is_keyed and settings.is_rekeyed:
        allowed = (
            f"does not go together with stream = {settings.stream}, whose root would already learn behind the routes; "
            "choose stream = partition or key, or hierarchy = local"
        )
    elif settings.is_keyed and settings.engine_parameters["max_depth"] == 1:
        allowed = "needs models below the root; raise engine.max_depth, or choose hierarchy = local"
    if allowed:
        yield Problem("hierarchy", "keyed", allowed)


def _prepare(settings: Fields) -> Iterator[Problem]:
    prepare, features = settings.prepare, settings.features
    if settings.input.sparse is not None:
        return
    if features is None:
        # The names come with the data: until then the settings can only be checked against each other.
        features = tuple(dict.fromkeys((*prepare.ranges, *prepare.log1p, *prepare.categories))) or ("feature",)
        if prepare.scale == "given" and not prepare.ranges:
            yield Problem("prepare.scale", "given", "needs prepare.ranges, a range for every feature")
        if prepare.scale != "given":
            # Pad to the number that a record must have; given ranges name every feature already.
            axes = 1 if prepare.project == "auto" else prepare.project
            others = range(len(features), settings.input.dimension or axes)
            features = (*features, *(f"feature {number}" for number in others))
    try:
        settings.preparation(features)
    except ParameterError as error:
        yield Problem(prepared_setting(error), error.value, f"must be {error.allowed}")


def _sparse(settings: Fields) -> Iterator[Problem]:
    given, prepare, engine = settings.input, settings.prepare, settings.engine_class
    if given.sparse is None:
        return
    if "features" in given.model_fields_set:
        allowed = "does not go together with input.features; choose one of them"
        yield Problem("input.sparse", given.sparse, allowed)
    if given.dimension is not None:
        allowed = "does not go together with input.dimension: engine.max_features says how many features there can be"
        yield Problem("input.sparse", given.sparse, allowed)
    if not issubclass(engine, SparseEngine):
        able = [name for name, each in sorted(engines.ENGINES.items()) if issubclass(each, SparseEngine)]
        allowed = (
            f"is for the engines that take sparse records, and engine.name is {engine.name}; choose "
            f"{' or '.join(able)}, or use input.features"
        )
        yield Problem("input.sparse", given.sparse, allowed)
    if prepare.project not in ("auto", 0):
        yield Problem("prepare.project", prepare.project, "is for dense records; leave it out with input.sparse")
    absent = "has no meaning with input.sparse, where a feature that a record leaves out is 0; leave it out"
    if prepare.missing != "reject":
        yield Problem("prepare.missing", prepare.missing, absent)
    if prepare.categories:
        yield Problem("prepare.categories", prepare.categories, absent)
    try:
        settings.sparse_scale()
    except ParameterError as error:
        yield Problem(f"prepare.{error.name}", error.value, f"with input.sparse must be {error.allowed}")


def _format(settings: Fields) -> Iterator[Problem]:
    given = settings.input
    if given.format == "json" or settings.is_framed or settings.is_otlp:
        return
    allowed = f"reads a member of a JSON object, and a record in input.format = {given.format} has none; leave it out"
    for name in ("records", "sparse", "id_path", "time_path", "label_path", "text_path"):
        if (value := getattr(given, name)) is not None:
            yield Problem(f"input.{name}", value, allowed)
    if settings.output.include:
        yield Problem("output.include", ", ".join(settings.output.include), allowed)
    if (settings.stream or "").startswith("field:"):
        yield Problem("stream", settings.stream, allowed.replace("leave it out", "choose partition, key or topic"))
    if settings.prepare.categories:
        named = ", ".join(settings.prepare.categories)
        yield Problem("prepare.categories", named, "are texts of a JSON object; leave them out, or send JSON")


def _records(settings: Fields) -> Iterator[Problem]:
    given = settings.input
    if not settings.has_many:
        return
    if settings.is_otlp and given.records is not None:
        allowed = f"is not for input.format = {given.format}, whose messages have many records; leave it out"
        yield Problem("input.records", given.records, allowed)
    cause = ("input.format", given.format) if settings.is_otlp else ("input.records", given.records)
    if settings.is_keyed:
        allowed = "does not go together with hierarchy = keyed; choose hierarchy = local, or send a record a message"
        yield Problem(*cause, allowed)
    if settings.features is None and given.dimension is None and given.sparse is None:
        yield Problem(*cause, _unknown_features(settings, "message"))


def _unknown_features(settings: Fields, first: str) -> str:
    # A record of an export request has no array of its own.
    array = f", or say how long the array {settings.input.features} is (input.dimension)"
    ways = f"list them (input.features){'' if settings.is_otlp else array}"
    return f"needs features that are known before the first {first}; {ways}"


def _schema_registry(settings: Fields) -> Iterator[Problem]:
    given = settings.schema_registry
    if settings.is_framed and not given.urls:
        needs = f"needs schema_registry.url, the registry with the schemas of {', '.join(settings.input.topics)}"
        yield Problem("input.format", settings.input.format, needs)
    for url in given.urls:
        yield from _log_in("schema_registry.url", url, "schema_registry.client.basic.auth.user.info")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield Problem("schema_registry.url", url, "must be addresses such as https://registry.example:8081")
    for name in properties.REGISTRY_OWNED:
        if name in given.client:
            why = "it is schema_registry.url" if name == "url" else "a worker waits for a registry for a fixed time"
            shown = given.client[name] if name != "url" else "***"
            yield Problem(f"schema_registry.client.{name}", shown, f"must not be set: {why}; leave it out")


def _delivery(settings: Fields) -> Iterator[Problem]:
    given = settings.delivery
    if given.mode == "exactly_once" and given.commit_interval > given.transaction_timeout / 2:
        allowed = (
            f"must be at most half of delivery.transaction_timeout ({given.transaction_timeout:g}), or brokers abort "
            "transactions before their commit"
        )
        yield Problem("delivery.commit_interval", given.commit_interval, allowed)
    if given.mode == "at_least_once" and settings.is_routed:
        why = "hierarchy = keyed" if settings.is_keyed else f"stream = {settings.stream}"
        allowed = f"must be exactly_once with {why}, or a record could be routed, and learned, twice"
        yield Problem("delivery.mode", given.mode, allowed)


def _labels(settings: Fields) -> Iterator[Problem]:
    path, topic = settings.input.label_path, settings.labels.topic
    if not settings.takes_labels:
        if path is None and topic is None:
            return
        learning = sorted(name for name, each in engines.ENGINES.items() if issubclass(each, engines.LabelEngine))
        allowed = (
            f"is for engines that learn from labels ({', '.join(learning)}), and {settings.engine.name} does not; "
            "leave it out"
        )
        if path is not None:
            yield Problem("input.label_path", path, allowed)
        if topic is not None:
            yield Problem("labels.topic", topic, allowed)
        return
    if (most := settings.engine_parameters["max_labels"]) > LABELS:
        allowed = f"must be an integer of at most {LABELS:,}: every assignment names all labels that its stream has"
        yield Problem("engine.max_labels", str(most), allowed)
    if topic is None:
        return
    if topic in settings.input.topics:
        allowed = "must differ from input.topics; labels in the records are for input.label_path"
        yield Problem("labels.topic", topic, allowed)
    if not settings.is_rekeyed:
        allowed = (
            "needs stream = topic or field:<path>, with which records and labels are brought into one order; stream is "
            f"{settings.stream or 'not set'}; choose topic where all records share one model, field:<path> otherwise"
        )
        yield Problem("labels.topic", topic, allowed)
    if settings.input.id_path is None:
        yield Problem("labels.topic", topic, "needs input.id_path: a message of labels names its record by the id")
    if settings.features is None and settings.input.dimension is None:
        yield Problem("labels.topic", topic, _unknown_features(settings, "record"))


def _stream_ttl(settings: Fields) -> Iterator[Problem]:
    allowed = ""
    if settings.limits.stream_ttl and settings.stream != "key":
        allowed = (
            f"needs stream = key, and stream is {settings.stream or 'not set'}: only where a partition is one log of "
            "many streams do the records of some show the silence of others; leave it out, or produce under the "
            "stream's name as key"
        )
    elif settings.limits.stream_ttl and settings.is_keyed:
        allowed = (
            "does not go together with hierarchy = keyed, whose subtrees would outlive their roots; choose hierarchy = "
            "local, or leave it out"
        )
    elif settings.limits.stream_ttl and settings.delivery.mode == "at_least_once":
        allowed = (
            "needs delivery.mode = exactly_once, with which an end and all that follows from it are stored together; "
            "choose that mode, or leave it out"
        )
    if allowed:
        yield Problem("limits.stream_ttl", settings.limits.stream_ttl, allowed)


def _shadow(settings: Fields) -> Iterator[Problem]:
    live = settings.shadow_of
    if live is None:
        return
    if live == settings.name:
        allowed = "must be another deployment; give this one a name of its own (name)"
        yield Problem("shadow_of", live, allowed)


def _topics(settings: Fields) -> Iterator[Problem]:
    owners: dict[str, str] = dict.fromkeys(settings.input.topics, "input.topics")
    if settings.labels.topic is not None:
        owners[settings.labels.topic] = "labels.topic"
    for kind in TopicsSection.KINDS:
        if (topic := settings.topic(kind)) in owners:
            allowed = f"gives the topic {topic}, which is in {owners[topic]}: the worker would read what it writes"
            yield Problem("topics.pattern", settings.topics.pattern, allowed)
    # The characters of a name are those of its parts, each of which is checked alone.
    longest = max(len(settings.topic(kind)) for kind in TopicsSection.KINDS)
    if longest > TOPIC_CHARACTERS:
        allowed = f"gives topics of up to {longest} characters, and Kafka takes {TOPIC_CHARACTERS}; shorten it, or name"
        yield Problem("topics.pattern", settings.topics.pattern, allowed)


RULES: Final[tuple[Callable[[Fields], Iterator[Problem]], ...]] = (
    _broker,
    _worker,
    _engine,
    _hierarchy,
    _prepare,
    _format,
    _records,
    _schema_registry,
    _sparse,
    _delivery,
    _labels,
    _stream_ttl,
    _shadow,
    _topics,
)
"""Each rule yields what it finds; only the first problem is reported, so a rule may rely on those before it."""
