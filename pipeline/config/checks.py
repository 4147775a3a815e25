"""Check the settings against each other, once each is valid alone."""

from collections.abc import Sequence

from resonance import engine as engines
from resonance.engine.errors import ParameterError
from resonance.pipeline.config import sparse
from resonance.pipeline.config.fields import Fields
from resonance.pipeline.config.label_checks import label_problem
from resonance.pipeline.config.messages import ValueOrigins, configuration_error, prepared_setting
from resonance.pipeline.config.sections import TopicsSection
from resonance.pipeline.errors import nearest


def check(settings: Fields, origins: ValueOrigins) -> None:
    """Refuse settings that do not go together.

    The `ConfigurationError` names the setting, its value, what is allowed, and what to do.
    """
    _check_broker(settings, origins)
    _check_engine(settings, origins)
    _check_hierarchy(settings, origins)
    if settings.input.sparse is None:
        _check_prepare(settings, origins)
    else:
        sparse.check(settings.input, settings.prepare, settings.engine_class, origins)
    _check_labels(settings, origins)
    _check_topics(settings, origins)


def _check_broker(settings: Fields, origins: ValueOrigins) -> None:
    if not settings.broker.security_protocol.startswith("SASL"):
        return
    names = ("sasl_mechanism", "sasl_username", "sasl_password")
    missing = [f"broker.{name}" for name in names if getattr(settings.broker, name) is None]
    if missing:
        raise configuration_error(
            "broker.security_protocol",
            settings.broker.security_protocol,
            f"needs a log-in; {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set",
            origins.of(("broker", "security_protocol")),
        )


def _check_engine(settings: Fields, origins: ValueOrigins) -> None:
    name = settings.engine.name
    if name not in engines.ENGINES:
        known = sorted(engines.ENGINES)
        raise configuration_error(
            "engine.name",
            name,
            f"must be one of {', '.join(known)}{nearest(name, known)}",
            origins.of(("engine", "name")),
        )
    if settings.is_keyed and name != "hcaea":
        raise configuration_error(
            "hierarchy",
            "keyed",
            f"is for engine.name = hcaea alone, {name} has no models below its root; choose hierarchy = local",
            origins.of(("hierarchy",)),
        )
    presets = sorted(settings.engine_class.presets)
    if settings.engine.preset and settings.engine.preset not in presets:
        allowed = f"must be one of {', '.join(presets)}" if presets else f"{name} has no presets"
        having = [other for other, each in engines.ENGINES.items() if settings.engine.preset in each.presets]
        raise configuration_error(
            "engine.preset",
            settings.engine.preset,
            allowed + nearest(settings.engine.preset, presets),
            origins.of(("engine", "preset")),
            _other_engine(settings, "engine.preset", f"preset {settings.engine.preset}", having),
        )
    try:
        engines.make_engine(name, settings.engine_parameters)
    except ParameterError as error:
        setting = f"engine.{error.name}"
        having = [other for other, each in engines.ENGINES.items() if error.name in {p.name for p in each.parameters}]
        raise configuration_error(
            setting,
            error.value,
            f"must be {error.allowed}",
            origins.of(("engine", error.name)),
            _other_engine(settings, setting, error.name, having),
        ) from None


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


def _check_hierarchy(settings: Fields, origins: ValueOrigins) -> None:
    if not settings.is_keyed:
        return
    problem = None
    if settings.is_rekeyed:
        problem = (
            f"does not go together with stream = {settings.stream}, whose root would already learn behind the routes; "
            "choose stream = partition or key, or hierarchy = local"
        )
    elif settings.engine_parameters["max_depth"] == 1:
        problem = "needs models below the root; raise engine.max_depth, or choose hierarchy = local"
    elif settings.emit_from is not None:
        problem = "cannot begin to tell in the middle; leave emit_from out, or choose hierarchy = local"
    if problem:
        raise configuration_error("hierarchy", "keyed", problem, origins.of(("hierarchy",)))


def _check_labels(settings: Fields, origins: ValueOrigins) -> None:
    if (found := label_problem(settings)) is not None:
        setting, value, problem = found
        raise configuration_error(setting, value, problem, origins.of(setting.split(".")))


def _check_prepare(settings: Fields, origins: ValueOrigins) -> None:
    prepare = settings.prepare
    features = settings.features
    if features is None:
        # The names come with the data: until then the settings can only be checked against each other.
        features = tuple(dict.fromkeys((*prepare.ranges, *prepare.log1p, *prepare.categories))) or ("feature",)
        if prepare.scale == "given" and not prepare.ranges:
            raise configuration_error(
                "prepare.scale",
                "given",
                "needs prepare.ranges, a range for every feature",
                origins.of(("prepare", "scale")),
            )
        if prepare.scale != "given":
            # Pad to the number that a record must have; given ranges name every feature already.
            axes = 1 if prepare.project == "auto" else prepare.project
            others = range(len(features), settings.input.dimension or axes)
            features = (*features, *(f"feature {number}" for number in others))
    try:
        settings.preparation(features)
    except ParameterError as error:
        setting = prepared_setting(error)
        raise configuration_error(
            setting, error.value, f"must be {error.allowed}", origins.of(setting.split(".")[:2])
        ) from None


def _check_topics(settings: Fields, origins: ValueOrigins) -> None:
    owners: dict[str, str] = dict.fromkeys(settings.input.topics, "input.topics")
    if settings.labels.topic is not None:
        owners[settings.labels.topic] = "labels.topic"
    for kind in TopicsSection.KINDS:
        topic = settings.topic(kind)
        setting = f"topics.{kind}"
        if topic in owners:
            raise configuration_error(
                setting,
                topic,
                f"must differ from {owners[topic]}, or the worker would read what it writes",
                origins.of(("topics", kind)),
            )
        owners[topic] = setting
