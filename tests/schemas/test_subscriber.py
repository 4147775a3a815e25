"""What a downstream program needs of this distribution, and what its subscriber recognises."""

import subprocess
import sys

import pytest
from resonance.schemas import Subscriber
from resonance.schemas.repeats import Repeats

HEAVY = (
    "faust",
    "mode",
    "aiokafka",
    "aiohttp",
    "numba",
    "numpy",
    "pydantic",
    "typer",
    "rich",
    "orjson",
    "resonance.engine",
)


def test_the_schemas_need_confluent_kafka_alone():
    shown = f"import sys; sys.modules.update(dict.fromkeys({HEAVY}, None)); import resonance.schemas as s; s.Subscriber"
    subprocess.run([sys.executable, "-c", shown], check=True)


def test_an_unknown_kind_of_output_is_refused():
    with pytest.raises(ValueError, match=r"event: the kinds of outputs are assignments, cluster-events, "):
        Subscriber("127.0.0.1:9", "shop", "team", ["event"])


def test_a_repeat_is_recognised_among_the_last():
    repeats = Repeats(remembered=2)
    assert [repeats.has_seen(each) for each in ("a", "a", "b", "c", "a")] == [False, True, False, False, False]
    assert repeats.count == 1


def test_the_command_without_its_packages_names_the_extra():
    shown = "import sys; sys.modules['typer'] = None; from resonance.pipeline.cli.start import main; main()"
    ended = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (
        1,
        "resonance needs typer, which is not installed: pip install 'resonance-streams[worker]'\n",
    )
