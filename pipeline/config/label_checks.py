"""Check the settings that concern labels."""

from typing import Final

from resonance import engine as engines
from resonance.pipeline.config.fields import Fields

LABELS: Final = 1_000
"""Most labels of a stream; there is a bound because every assignment names all of them."""


def label_problem(settings: Fields) -> tuple[str, str, str] | None:
    """Return the first unusable setting of labels, its value and what is wrong; None where all are usable."""
    path, topic = settings.input.label_path, settings.labels.topic
    if not settings.takes_labels:
        taught = sorted(name for name, each in engines.ENGINES.items() if issubclass(each, engines.LabelEngine))
        problem = (
            f"is for engines that are taught by labels ({', '.join(taught)}), and {settings.engine.name} is not; "
            "leave it out"
        )
        if path is not None:
            return "input.label_path", path, problem
        return None if topic is None else ("labels.topic", topic, problem)
    if (most := settings.engine_parameters["max_labels"]) > LABELS:
        problem = f"must be an integer of at most {LABELS:,}: every assignment names all labels that its stream has"
        return "engine.max_labels", str(most), problem
    if topic is None:
        return None
    if topic in settings.input.topics:
        return "labels.topic", topic, "must differ from input.topics; labels in the records are for input.label_path"
    if not settings.is_rekeyed:
        return (
            "labels.topic",
            topic,
            "needs stream = topic or field:<path>, with which records and labels are brought into one order; stream is "
            f"{settings.stream or 'not set'}; choose topic where all records share one model, field:<path> otherwise",
        )
    if settings.input.id_path is None:
        return "labels.topic", topic, "needs input.id_path: a message of labels names its record by the id"
    if settings.features is None and settings.input.dimension is None:
        return (
            "labels.topic",
            topic,
            "needs features that are known before the first record; list them (input.features), or say how long the "
            f"array {settings.input.features} is (input.dimension)",
        )
    return None
