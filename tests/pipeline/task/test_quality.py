"""The quality of clusters as the pipeline gives them live, on a set that every installation has."""

from resonance.pipeline.config.sections import EngineSection

from bench.gallery.runs import run
from bench.gallery.streams import named


def test_digits_are_told_apart_live_with_default_settings():
    line = run(named("sets", "digits"), EngineSection().name, 1.0, 0, {})
    assert line.ari is not None
    assert line.ari >= 0.6
    assert line.events is not None
    assert line.events <= 16
    assert line.present is not None
    assert 9 <= line.present <= 11
