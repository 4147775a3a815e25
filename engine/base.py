"""The contract that every engine keeps, and the plain results it gives."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.errors import RecordError
from resonance.engine.parameters import Parametrised

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Path = tuple[int, ...]
"""Node ids that lead from the root of a tree to a model; ``()`` for the root, and for the model of a flat engine."""

Label = str | int
"""A label: text, or an integer of 64 bits."""

EventKind = Literal["emerged", "absorbed", "split", "vanished"]

MAGNITUDE = 1e150
"""Largest absolute value of a prepared feature: its square is still a float64."""

NAMED = 3
"""Features that an answer names at most."""


@dataclass(frozen=True, slots=True)
class Salience:
    """What one feature means to a cluster.

    Attributes
    ----------
    feature : int
        Position of the feature.
    salience : float
        From 0 to 1: how often the cluster's records have the feature, and how steady its value is.
    weight : float
        Its value in the cluster's template, in prepared units.
    """

    feature: int
    salience: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A confirmed cluster as it was last read.

    Attributes
    ----------
    id : int
        Number within its model; never used again there.
    path : tuple of int
        Node ids that lead from the root to the model of this cluster; ``()`` for the root's own.
    size : int
        Records that its nodes have won.
    nodes : int
        Nodes of the cluster.
    centre, spread : ndarray of shape (d,)
        Mean and standard deviation over its nodes, weighted by their records, in prepared units.
    features : ndarray of int64, optional
        Where records are open (see `sparse.SparseBatch`): the d features that `centre` and `spread` are of; the
        cluster has zero at all others. None: all features, in their order.
    salient : tuple of Salience
        The features that tell it apart, the most telling first; of engines that weigh features.
    """

    id: int
    path: tuple[int, ...]
    size: int
    nodes: int
    centre: FloatArray
    spread: FloatArray
    features: IntArray | None = None
    salient: tuple[Salience, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an event happened: the criterion, its value, and the threshold it met or missed.

    Of a cluster that was absorbed, the value is the affinity at which the last two parts of what it ended in were
    joined; of a split, the affinity of the two parts that were not joined any more.

    Attributes
    ----------
    criterion : str
        What was compared, such as ``affinity``.
    value, threshold : float
        The two numbers that were.
    further : mapping of str to float
        Other numbers that had to be met for the event to happen, by name; empty where one number decided alone.
    """

    criterion: str
    value: float
    threshold: float
    further: Mapping[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A change of the set of confirmed clusters.

    Attributes
    ----------
    index : int
        Record of the batch that caused it.
    kind : {"emerged", "absorbed", "split", "vanished"}
        ``emerged``: `cluster` is new. ``absorbed``: `cluster` ended in `other`. ``split``: `cluster` is new and
        came from `other`, which goes on. ``vanished``: `cluster` ended without an heir.
    path : tuple of int
        Path of the model (see `Cluster`).
    number : int
        Position in the sequence of events of that model, from 0, without gaps.
    cluster, other : int, int or None
        Ids within the model.
    before, after : tuple of Cluster
        The clusters concerned, as read before and after the change.
    reason : Reason or None
        What decided, where one number did.
    """

    index: int
    kind: EventKind
    path: tuple[int, ...]
    number: int
    cluster: int
    other: int | None
    before: tuple[Cluster, ...]
    after: tuple[Cluster, ...]
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The number of groups into which an engine divides the features has changed.

    Attributes
    ----------
    index : int
        Record of the batch with which it did.
    before, after : int
        Groups there were, and are.
    """

    index: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, eq=False)
class LabelAnswers:
    """How probable each label is, for each record of a batch.

    Attributes
    ----------
    labels : tuple of str or int
        Every label that the model knew at the end of the batch, in the order in which they came; within one record
        integers before text, each in ascending order.
    probabilities : ndarray of float64, shape (n, number of labels)
        By record and label, from 0 to 1; NaN where the label was not known yet when the record was answered. A label
        is predicted where its probability is above 0.5.
    """

    labels: tuple[Label, ...]
    probabilities: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Answers for a learned batch of n records; `depth` is the number of levels that the engine has (1 if flat).

    Attributes
    ----------
    cluster : ndarray of int64, shape (n, depth)
        Cluster of the record on each level of its path, as it was before the record was learned; -1 where none.
    score : ndarray of float64, shape (n,)
        1 = typical, 0 = unlike anything seen; NaN while there is no cluster on the first level.
    novel : ndarray of bool, shape (n,)
        The record is unlike what the model knew; as a rule it founded a node.
    path : ndarray of int64, shape (n, depth)
        Ids of the nodes that learned it, root first, padded with -1.
    events : list of Event
        In the order in which they happened.
    labels : LabelAnswers, optional
        How probable each label was before the record was learned; of a `labels.LabelEngine`.
    groups : list of GroupChange
        Of engines that divide the features into groups.
    outside : ndarray of float64, shape (n, NAMED, 4), optional
        Features in which an unusual record is outside of what is usual, the farthest first: column, value, and between
        which two values most are; NaN where there are fewer. Of engines that know.
    """

    cluster: IntArray
    score: FloatArray
    novel: BoolArray
    path: IntArray
    events: list[Event] = field(default_factory=list)
    labels: LabelAnswers | None = None
    groups: list[GroupChange] = field(default_factory=list)
    outside: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Answers for n records that were not learned.

    Attributes
    ----------
    cluster : ndarray of int64, shape (n, depth)
        As in `Step`.
    score : ndarray of float64, shape (n,)
        As in `Step`.
    novel : ndarray of bool, shape (n,)
        As in `Step`; of a `labels.LabelEngine` as of records without labels: False.
    label : ndarray of int64, shape (n,)
        Majority label of the nearest node that has one; -1 where nothing was learned with labels, and of a
        `labels.LabelEngine`.
    labels : LabelAnswers, optional
        How probable each label is; of a `labels.LabelEngine`.
    """

    cluster: IntArray
    score: FloatArray
    novel: BoolArray
    label: IntArray
    labels: LabelAnswers | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model of an engine: the only one of a flat engine, or one of a tree.

    Attributes
    ----------
    path : tuple of int
        Nodes that lead to it; ``()`` for the root.
    records : int
        Records that it has learned.
    since : dict of int to int
        Of each cluster, how many records the model had learned when the cluster emerged; empty where that is not kept.
    cluster_of : dict of int to int
        Cluster of each node that has one.
    """

    path: Path
    records: int
    since: dict[int, int]
    cluster_of: dict[int, int]


class Engine(Parametrised, abc.ABC):
    """A clustering engine that learns a stream in order.

    State and answers are a function of the records alone: learning them in one batch or one by one gives the same
    bits. An engine knows no clock, no file and no bus.
    """

    name: ClassVar[str]
    """The engine's name in settings."""
    revision: ClassVar[int]
    """Raised with every change that alters bits; part of a state's header."""
    unit_interval: ClassVar[bool] = False
    """Defined on [0, 1] alone: a value outside it is a `RecordError`, so the preparation of records clips them."""
    projects: ClassVar[bool] = True
    """Records of many features are projected on a few principal axes for it, where the user says nothing else."""

    robust: ClassVar[bool] = False
    """Features with two values count little for it, and skewed ones are bent, where the user says nothing else."""
    rescales: ClassVar[bool] = False
    """It has `rescale`, so that a scale that records have left can be frozen anew while it goes on."""
    unusual: ClassVar[float] = 0.0
    """A record whose score is lower is unusual, even in a cluster: that one is rare, or mostly elsewhere."""

    most_features: ClassVar[int | None] = None
    """Features that a prepared record has at most; None: any number that the parameters allow."""

    depth: int = 1
    """Levels that `Step.cluster` and `Step.path` have."""
    dimension: int = 0
    """Features of a record; 0 before the first batch."""

    @classmethod
    @abc.abstractmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""

    @abc.abstractmethod
    def learn(self, X: ArrayLike, labels: Sequence[int] | None = None) -> Step:
        """Learn a batch in order.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Prepared records: finite, at most `MAGNITUDE` in absolute value.
        labels : sequence of int >= 0, optional
            Class of each record, -1 for none; they never influence the clusters.

        Returns
        -------
        Step
            Its `cluster` has shape (n, levels), one level for all engines but those with trees, and -1 where a record
            is in none; `score` is NaN where there is none yet.

        Raises
        ------
        RecordError
            Naming the first record that cannot be learned; nothing of the batch was.
        """

    @abc.abstractmethod
    def predict(self, X: ArrayLike) -> Prediction:
        """Answer for records without learning them; changes nothing."""

    @abc.abstractmethod
    def clusters(self) -> list[Cluster]:
        """Present confirmed clusters, by path and id, as last read."""

    @property
    def crowded(self) -> bool:
        """Whether it has fewer nodes than the clusters need: some that are there may be missing."""
        return False

    def rescale(self, factor: FloatArray, shift: FloatArray) -> None:
        """Go on with records in other units: what was x of a feature is ``factor * x + shift`` from now on.

        Parameters
        ----------
        factor, shift : ndarray of shape (d,)
            Of each feature; factors above 0.
        """
        raise NotImplementedError(f"{self.name} cannot be rescaled")

    def move(self, before: FloatArray, after: FloatArray) -> None:
        """Go on with all records that were learned elsewhere: what was a row of `before` is that of `after`.

        Parameters
        ----------
        before, after : ndarray of shape (n, d)
            All records that were learned, in order.
        """
        raise NotImplementedError(f"{self.name} cannot be rescaled")

    def models(self) -> dict[Path, ModelFacts]:
        """Return what is known of each model of the engine, by its path; none before the first record."""
        return {}

    @abc.abstractmethod
    def state(self) -> bytes:
        """Everything the next record depends on: versioned, checksummed, canonical (equal states, equal bytes)."""

    @classmethod
    @abc.abstractmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state`; the next records give the same bits.

        Raises
        ------
        StateError
            Damaged, of another engine, or of a newer format.
        """


def check_batch(X: ArrayLike, dimension: int, most: int | None = None) -> FloatArray:
    """Return `X` as a C-contiguous float64 array of shape (n, d), or say in a `RecordError` which record is at fault.

    `dimension` is the d that the engine already has, 0 when this batch decides it; `most` is the largest that it takes.
    """
    try:
        batch = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RecordError(0, f"not an array of numbers: {error}") from error
    if batch.ndim != 2 or (batch.shape[1] == 0 and len(batch)):
        raise RecordError(0, f"a batch has shape (n, d) with d >= 1, this one {batch.shape}")
    if dimension and len(batch) and batch.shape[1] != dimension:
        raise RecordError(0, f"{batch.shape[1]} features, the model has {dimension}")
    if most is not None and len(batch) and batch.shape[1] > most:
        what = f"{batch.shape[1]:,} features, the engine takes at most {most:,}"
        raise RecordError(0, f"{what}; project them on principal axes (prepare.project)")
    usable = np.abs(batch) <= MAGNITUDE
    if not usable.all():
        index, feature = np.argwhere(~usable)[0]
        value = batch[index, feature]
        problem = f"beyond {MAGNITUDE:g}" if np.isfinite(value) else "not finite"
        raise RecordError(int(index), f"feature {feature} is {value!r}: {problem}")
    # Kernels are compiled for arrays that may be written to.
    return batch if batch.flags.writeable else batch.copy()
