"""Texts for people name streams by their keys, and options take both."""

import pytest
from resonance.pipeline.stream_keys import readable, stream_id
from resonance.pipeline.task.decode.stream_names import StreamNames


@pytest.mark.parametrize("prefix", ["", "p3", "in.p0"])
@pytest.mark.parametrize("key", ["Öl 3", "a b", "sh/op: 7", "0A:1b", "50 %", "50%", "a\\1", "dev-1"])
def test_a_stream_is_read_by_its_key_and_chosen_by_its_key_or_its_id(prefix, key):
    name = StreamNames(prefix, True).name_of(key.encode())
    shown = f"{prefix}:{key}" if prefix else key
    assert readable(f"{name}: broke; {name}x and {name}/1/3 not", name) == f"{shown}: broke; {name}x and {name}/1/3 not"
    assert (stream_id(shown), stream_id(name)) == (name, name)


def test_a_key_that_is_no_text_stays_as_ids_have_it():
    assert readable("p0:%FF drifted", "p0:%FF", None) == "p0:%FF drifted"
