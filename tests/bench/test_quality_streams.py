"""The streams of the benchmark: the same draws as those that the figures are compared with."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from bench.quality.streams import STREAMS, named

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "gallery" / "streams.py"
LENGTHS = {"long": 2_000, "shapes": 300, "ladder": 40, "sensors": 3_000}
"""Records of the longest stream of each group of the reference."""


@pytest.mark.golden
@pytest.mark.skipif(not REFERENCE.exists(), reason="the gallery's reference does not lie beside this checkout")
@pytest.mark.parametrize("seed", [11, 5])
@pytest.mark.parametrize("group", LENGTHS)
def test_streams_are_those_of_the_reference(group, seed):
    spec = importlib.util.spec_from_file_location("reference_gallery", REFERENCE)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    streams = {stream.name: stream for stream in STREAMS if stream.group == group}
    length = LENGTHS[group] / max(stream.records for stream in streams.values())
    found = [case for case in reference.GALLERY[group](n=LENGTHS[group], seed=seed) if case[0] in streams]
    assert len(found) >= len(streams) / 2
    for name, X, y in found:
        records, classes = streams[name].generated(length, seed)
        assert np.array_equal(records, X), name
        assert np.array_equal(classes, y), name


def test_a_length_is_a_multiple_or_a_number_of_records():
    stream = named("shapes", "rings")
    assert len(stream.generated(0.1, None)[0]) == 2_000
    assert len(stream.generated(500, None)[0]) == 500


def test_a_name_means_one_stream():
    assert len({stream.name for stream in STREAMS}) == len(STREAMS)
