"""The scale of dense records: what is done with each feature, and then a projection on principal axes."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.errors import RecordError
from resonance.engine.prepare.axes import MIDDLE, PrincipalAxes, common_length
from resonance.engine.prepare.columns import Columns
from resonance.engine.prepare.parameters import PreparationParameters
from resonance.engine.prepare.transform import problem, transform_and_project


class DenseScale:
    """What makes prepared records of raw ones, and leads back to the units of the input.

    Parameters
    ----------
    parameters : PreparationParameters
        Those of the preparation. What they leave to the records of a warm-up is learned by `learned`.

    Attributes
    ----------
    columns : Columns
        What is done with each feature.
    axes : PrincipalAxes or None
        Those that take the place of the columns, if any do; `PrincipalAxes.unknown` until they are learned.
    """

    def __init__(self, parameters: PreparationParameters) -> None:
        self._parameters = parameters
        self.columns = Columns(parameters)
        self.axes = PrincipalAxes.unknown(parameters.axes, len(parameters.columns)) if parameters.axes else None
        self._projects = False

    @classmethod
    def learned(cls, parameters: PreparationParameters, raw: FloatArray, *, is_first: bool) -> Self:
        """Learn the scale of raw records; a first one, of few records, has no steps."""
        scale = cls(parameters)
        columns = scale.columns
        columns.learn_means(raw)
        length = scale._common_length(raw)
        if parameters.scale == "warmup" and not length:
            # Of few records one value has often a tenth.
            if parameters.robust and not is_first:
                columns.learn_steps(raw)
            columns.learn_ranges(raw, columns.spread(raw, 0))
        axes = None
        if parameters.axes and len(raw):
            rows, *_ = columns.transform(columns.spread(raw, 0), clip=False)
            axes = PrincipalAxes.of(rows, parameters.axes, scaled=parameters.scale != "none", length=length)
        scale._project_on(axes or scale.axes)
        return scale

    def _common_length(self, raw: FloatArray) -> float:
        """Return the length that all records have in common, where features are not given scales of their own, or 0."""
        parameters = self._parameters
        alike = parameters.scale == "warmup" and not parameters.log1p and not parameters.categories
        if not (parameters.axes and alike and len(raw)):
            return 0.0
        return common_length(self.columns.transform(raw, clip=False)[0])

    def _project_on(self, axes: PrincipalAxes | None) -> None:
        """Project records from now on, where there are axes."""
        self.axes, self._projects = axes, axes is not None
        if axes is not None and axes.length:
            # Records of one length are compared with no range: none was learned of their features.
            self.columns.table.ranged[:] = False

    @property
    def dimension(self) -> int:
        """Values of a prepared record."""
        return len(self._parameters.columns) if self.axes is None else len(self.axes)

    def run(self, rows: FloatArray) -> tuple[FloatArray, IntArray, int, int]:
        """Return prepared rows and the rest as of `Columns.transform`; the rows of a warm-up are not projected yet."""
        axes = self.axes
        if axes is None or not self._projects:
            return self.columns.transform(rows, self._parameters.clip)
        prepared = np.empty((len(rows), len(axes)))
        faults = np.empty((len(rows), 2), np.int64)
        outside, faulty = transform_and_project(
            rows, self.columns.table, axes.length > 0.0, axes.centre, axes.lanes, MIDDLE, prepared, faults
        )
        return prepared, faults, outside, faulty

    def prepared(self, rows: FloatArray) -> tuple[FloatArray, int]:
        """Return prepared rows, and how many values are outside their range; `RecordError` names the first at fault."""
        prepared, faults, outside, faulty = self.run(rows)
        if faulty:
            i = int(np.flatnonzero(faults[:, 1])[0])
            raise RecordError(i, self._problem(rows[i], faults[i]))
        return prepared, outside

    def problems(self, rows: FloatArray) -> dict[int, str]:
        """Return what is wrong with which row, in order."""
        _, faults, *_ = self.run(rows)
        return {int(i): self._problem(rows[i], faults[i]) for i in np.flatnonzero(faults[:, 1])}

    def _problem(self, row: FloatArray, fault: IntArray) -> str:
        return problem(row, fault, self._parameters.features, self.columns.table.width)

    def grain(self, prepared: FloatArray) -> FloatArray:
        """Return how far apart values may be that were one before they were spread, as `Preparation.grain` has it."""
        return self.columns.grain(prepared) if self.axes is None else np.zeros((1, self.dimension))

    def without_means(self, prepared: FloatArray, raw: FloatArray) -> FloatArray:
        """Return prepared records with NaN in place of means, as `Preparation.without_means` has it."""
        if self._parameters.missing != "mean" or self.axes is not None:
            return prepared
        lacks = np.isnan(raw)
        if not lacks.any():
            return prepared
        return np.where(np.repeat(lacks, np.maximum(self.columns.table.values, 1), axis=1), np.nan, prepared)

    def to_input_units(self, centre: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map a prepared centre and the spread around it back, as `Preparation.to_input_units` has it."""
        middle, width = np.array(centre, np.float64), np.array(spread, np.float64)
        if self.axes is not None:
            middle, width = self.axes.to_columns(middle, width)
        self.columns.to_input_units(middle, width)
        return middle, width

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `read` reads."""
        return self.columns.arrays() | (self.axes.arrays() if self.axes is not None else {})

    def read(self, arrays: Mapping[str, NDArray[Any]], *, is_learned: bool) -> None:
        """Continue with what a state holds; KeyError or ValueError where it is none of these parameters."""
        self.columns.read(arrays)
        if self.axes is not None and is_learned:
            self._project_on(PrincipalAxes.from_arrays(arrays, len(self.axes), len(self._parameters.columns)))
