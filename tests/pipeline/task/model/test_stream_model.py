"""What a stream's state says of itself is checked when it is loaded."""

import numpy as np
import pytest
from resonance.engine import Modal, StateError
from resonance.engine.drift import DriftWatch
from resonance.engine.state import pack, unpack
from resonance.pipeline.task.model import stream_drift
from resonance.pipeline.task.model.stream_model import KIND, STATE_REVISION, StreamModel

from tests.pipeline.streams import settings


def parts_of(model):
    return unpack(model.state(), KIND, STATE_REVISION)


def loaded(header, arrays):
    return StreamModel.from_state("modal", "p0", pack(KIND, STATE_REVISION, header, arrays))


def test_parts_that_do_not_fit_each_other_are_refused():
    header, arrays = parts_of(StreamModel(settings(), "p0", ["a", "b"]))
    assert loaded(header, arrays).next == 0
    engine = Modal()
    engine.learn(np.zeros((1, 3)))
    wider = np.frombuffer(engine.state(), np.uint8)
    with pytest.raises(StateError, match="dimension 3 behind a preparation of 2 columns"):
        loaded(header, {**arrays, "engine": wider})
    with pytest.raises(StateError, match="has parts"):
        loaded(header, {"engine": arrays["engine"]})


@pytest.mark.parametrize("wrong", [{"version": 0}, {"next": -1}, {"seq": -1}], ids=str)
def test_a_place_that_no_stream_has_is_refused(wrong):
    header, arrays = parts_of(StreamModel(settings(), "p0", ["a", "b"]))
    with pytest.raises(StateError, match="cannot be read"):
        loaded({**header, **wrong}, arrays)


def watching(watch, **wrong):
    """The parts of a stream of two features whose watch is another one, or has other arrays."""
    model = StreamModel(settings(), "p0", ["a", "b"])
    model.engine.learn(np.random.default_rng(0).random((4, 2)))
    header, arrays = parts_of(model)
    own, parts = unpack(model.drift.state(), stream_drift.KIND, stream_drift.REVISION)
    parts = {**parts, "watch": np.frombuffer(watch(own["parameters"]).state(), np.uint8), **wrong}
    drift = pack(stream_drift.KIND, stream_drift.REVISION, own, parts)
    return header, {**arrays, "drift": np.frombuffer(drift, np.uint8)}


def test_a_watch_of_other_records_is_refused():
    assert loaded(*watching(lambda given: DriftWatch(2, **given))).drift.watch.dimension == 2
    with pytest.raises(StateError, match="stream p0 cannot be used: a watch of 3 features behind an engine of dim"):
        loaded(*watching(lambda given: DriftWatch(3, **given)))
    with pytest.raises(StateError, match=r"relations=1, cells=64\) in place of DriftWatch"):
        loaded(*watching(lambda given: DriftWatch(2, **{**given, "cells": 64})))
    with pytest.raises(StateError, match="cannot be read"):
        loaded(*watching(lambda given: DriftWatch(2, **given), held=np.zeros((2, 1))))
