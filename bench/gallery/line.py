"""One line of the gallery."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Line:
    """The figures of one stream with one engine; None where there is none.

    Attributes
    ----------
    group, stream, engine, seed
        What was measured.
    records, features : int
        Size of the stream.
    refused : str or None
        Why there are no figures.
    failed : str or None
        The same where it is a fault of the engine or of the gallery.
    ari : float or None
        Adjusted Rand index of the second half.
    classes, answering, present : int or None
        Classes of the second half; clusters that answer a noticeable part of it; clusters at the end.
    largest : float or None
        Share of the second half that the largest cluster answers.
    events : float or None
        Events per 1,000 records of the second half.
    splits, taken_back : int or None
        Splits of the whole stream, and those whose parts became one again.
    novel, nulls : float or None
        Shares of the second half: founded a node; got no cluster.
    units_half, units_end : int or None
        Nodes that the model consists of.
    task_second, task_last, engine_second, engine_last : float or None
        Microseconds of CPU time a record in the second and in the last tenth, of the task and of its engine alone.
    state_bytes : int or None
        Size of the model's state.
    emerged : dict of str to int or None
        Of each novelty of the stream, its records until a cluster of its own answered.
    seconds : float
        All that the line took.
    """

    group: str
    stream: str
    engine: str
    seed: int
    records: int = 0
    features: int = 0
    refused: str | None = None
    failed: str | None = None
    ari: float | None = None
    classes: int | None = None
    answering: int | None = None
    present: int | None = None
    largest: float | None = None
    events: float | None = None
    splits: int | None = None
    taken_back: int | None = None
    novel: float | None = None
    nulls: float | None = None
    units_half: int | None = None
    units_end: int | None = None
    task_second: float | None = None
    task_last: float | None = None
    engine_second: float | None = None
    engine_last: float | None = None
    state_bytes: int | None = None
    emerged: dict[str, int | None] = field(default_factory=dict)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return it as ``--json`` writes it."""
        return asdict(self)
