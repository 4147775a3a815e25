"""Subtrees of one partition of the routes: their models by name, and the bookkeeping of their snapshots."""

from typing import Any

from resonance.engine.errors import ParameterError, StateError
from resonance.engine.prepare import AnyPreparation, Preparation
from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import StreamSnapshot
from resonance.pipeline.repartition.keyed.operation_records import Part, SubtreeOperation
from resonance.pipeline.repartition.keyed.subtree_model import SubtreeModel
from resonance.pipeline.task.feature_discovery import FeatureDiscovery
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.model_store import StoredModel
from resonance.pipeline.task.streams import Streams


class Subtrees(Streams):
    """Subtrees of a partition, in the order in which they began; the key of a subtree is its name."""

    def __init__(self, settings: Settings, topic: str, partition: int, features: FeatureDiscovery) -> None:
        super().__init__(settings, topic, partition, features)
        self._gone: dict[str, None] = {}

    def of(self, part: Part) -> SubtreeModel | None:
        """Return the model of a subtree, or None where it is not here."""
        model = self.get(part.name.encode())
        return model if isinstance(model, SubtreeModel) else None

    def name_of(self, key: bytes | None) -> str:
        """Return the name of a subtree."""
        return (key or b"").decode()

    def key_of(self, name: str) -> bytes:
        """Return the key of the subtree with a name."""
        return name.encode()

    def begin_below(self, first: SubtreeOperation) -> SubtreeModel:
        """Begin a subtree and return its model.

        A first message that is incomplete, or does not fit the roots of these settings, is a `StateError`.
        """
        model = SubtreeModel(self._settings, first)
        if not self._is_of_roots(model.preparation):
            raise StateError("its columns are not those that the settings make of a record")
        self._take(model)
        return model

    def _is_of_roots(self, preparation: AnyPreparation) -> bool:
        """Return whether the vectors of a preparation can be learned under the settings."""
        if not isinstance(preparation, Preparation):
            return False
        settings, features = self._settings, preparation.features
        known, count = settings.features, settings.input.dimension
        if tuple(features) != known if known is not None else count not in (None, len(features)):
            return False
        try:
            own = settings.preparation(features)
        except ParameterError:
            return False
        # A warm-up may have fewer axes than the settings request.
        fits = preparation.dimension <= own.dimension if own.projects else True
        return fits and (own.columns, own.projects) == (preparation.columns, preparation.projects)

    def _take(self, model: StreamModel) -> None:
        self._put(model.name.encode(), model)
        self._gone.pop(model.name, None)

    def remove(self, model: StreamModel) -> None:
        """Remove a subtree whose root node was removed, and mark its snapshot for deletion."""
        name = model.name
        self._drop(name.encode())
        self._schedule.remove(name)
        self._gone[name] = None

    def dropped(self) -> list[str]:
        """Return the subtrees whose snapshots must be deleted, each once."""
        gone, self._gone = list(self._gone), {}
        return gone

    def _header(self, version: int) -> dict[str, Any]:
        return {**self._settings_header(), "version": version}

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Restore a subtree from a snapshot; a new version has subtrees of its own."""
        where = self._check(snapshot, "subtree")
        try:
            model = SubtreeModel.from_bytes(snapshot.body)
        except StateError as error:
            raise mismatches.unreadable(where, f"the state ({error})") from None
        self._take(model)

    def _read(self, key: bytes | None, stored: StoredModel) -> StreamModel:
        model = SubtreeModel.from_bytes(stored.state)
        model.snapshot_bytes = stored.snapshot_bytes
        return model
