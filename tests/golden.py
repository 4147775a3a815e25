"""Golden states: one file for each kind of state and each of its revisions, with what is answered next.

``python -m tests.golden`` writes those of the present revisions that have none; a file that is there never changes. An
older revision is written with the code of its time; where bits have changed since, its digest is of the present ones.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from resonance.engine.base import Step
from resonance.engine.drift import DriftWatch
from resonance.engine.drift import watch as drift
from resonance.engine.prepare import Preparation, preparation
from resonance.engine.state import unpack
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record, StreamSnapshot
from resonance.pipeline.task import stream_task
from resonance.pipeline.task.model import keywords, stream_model
from resonance.pipeline.task.model.keywords import Keywords
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.partition_task import PartitionTask

from tests.engine.test_state_checks import LATER, MODELS, small
from tests.pipeline import streams

FOLDER = Path(__file__).parent / "data" / "states"
ANSWERS = FOLDER / "answers.json"
"""The digest of what is answered after each state."""


def rows(count: int, d: int, first: int = 0) -> Any:
    """Records in two groups, without a random number: the same ones for ever."""
    number = np.arange(first * d, (first + count) * d).reshape(count, d)
    return (number * 7919 % 1009) / 1009 + 3.0 * (np.arange(first, first + count)[:, None] % 2)


def digest(*parts: Any) -> str:
    """Return the hash of arrays."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.tobytes())
    return found.hexdigest()


class Kind(NamedTuple):
    """A kind of state."""

    revision: int
    make: Callable[[], bytes]
    answers: Callable[[bytes], str]
    """Load a state, and return the digest of what it answers next."""


def _engine(name: str, state: bytes) -> str:
    model = type(small(name)).from_state(state)
    X, labels = LATER.get(name, (rows(60, MODELS[name][1].shape[1]), [0] * 60))
    step = model.learn(X, labels)
    return digest(step.cluster, step.score, step.novel, step.path)


def _raw(count: int, first: int) -> Any:
    """Raw records: a plain feature, one in steps, one that is skewed."""
    X = rows(count, 3, first)
    X[:, 1] = np.floor(8.0 * X[:, 1])
    X[:, 2] *= X[:, 2] * X[:, 2] * X[:, 2]
    return X


def _prepared(**parameters: Any) -> bytes:
    made = Preparation(["a", "b", "c"], **parameters)
    rows = _raw(200, 0)
    made.hold(rows[: made.wanted])
    made.freeze()
    if made.settling:
        made.apply(rows[made.held :])
        made.rescale()
    made.apply(_raw(50, 200))
    return made.state()


def _prepare(state: bytes) -> str:
    return digest(Preparation.from_state(state).apply(_raw(100, 250)))


def _watch() -> bytes:
    made, none = DriftWatch(3, leaps=1, relations=1), np.zeros(400, dtype=np.int64)
    for first in range(0, 1_600, 400):
        made.learn(rows(400, 3, first)[: made.room], none[: made.room], none[: made.room], none[: made.room])
    return made.state()


def _drift(state: bytes) -> str:
    made, none = DriftWatch.from_state(state), np.zeros(100, dtype=np.int64)
    changes = made.learn(rows(100, 3, 400), none, np.arange(400, 500), none)
    return digest(*(np.array([each.record, each.evidence]) for each in changes))


def _speak(made: Keywords, first: int, further: int = 0) -> bytes:
    """Let the texts of 384 records follow, of three clusters; `further` words of each hardly come again."""
    said = ("card declined", "app crashes", "parcel late", "größe falsch")
    for start in range(first, first + 384, 64):
        number = np.arange(start, start + 64)
        step = Step(number[:, None] % 3, np.zeros(64), number % 11 == 0, number[:, None])
        rare = [[(i * further + k) ** 2 * 7919 % 10_000 for k in range(further)] for i in number.tolist()]
        more = ["".join(" " + "".join("abcdefghij"[int(c)] for c in f"{n:04}") for n in each) for each in rare]
        texts = [f"{said[i % 3]} {said[i * 7919 % 4]} {i}{words}" for i, words in zip(number, more, strict=True)]
        made.take(step, range(64), texts, range(64), 0, 64)
        made.look()
    return made.state()


def _keywords(state: bytes, further: int = 0) -> str:
    later = _speak(Keywords.from_state(state), 384, further)
    return digest(*unpack(later, keywords.KIND, keywords.REVISION)[1].values())


def _stream() -> bytes:
    made = StreamModel(streams.settings(**{"engine.name": "modal"}), "s", ["a", "b", "c"])
    values, at = rows(400, 3), 0
    while at < len(values):
        taken = made.portion(len(values) - at)
        made.process(values[at : at + taken])
        at += taken
    return made.state()


def _stream_goes_on(state: bytes) -> str:
    step = StreamModel.from_state("modal", "s", state).process(rows(100, 3, 400)).step
    return digest(step.cluster, step.score, step.novel, step.path)


def _task() -> PartitionTask:
    given = {
        "stream": "key",
        "input.topics": ["features"],
        "input.features": ["a", "b", "c"],
        "prepare.warmup_records": 50,
    }
    return PartitionTask(Settings.of(given), "features", 0)


def _record(offset: int) -> Record:
    x = offset * 7919 % 1009 / 1009
    value = json.dumps({"a": x + 3 * (offset // 2 % 2), "b": int(8 * x), "c": x * x * x * x})
    return Record("features", 0, offset, 1_700_000_000_000 + 1000 * offset, b"k%d" % (offset % 2), value.encode())


def _checkpoint() -> bytes:
    made = _task()
    made.process([_record(offset) for offset in range(300)])
    streams = [[each.stream, each.next, each.header, b64encode(each.body).decode()] for each in made.models.states()]
    return json.dumps({"state": made.partition_state().decode(), "streams": streams}).encode()


def _checkpoint_goes_on(state: bytes) -> str:
    found, task = json.loads(state), _task()
    task.restore_partition(found["state"].encode())
    for stream, next_, header, body in found["streams"]:
        task.restore(StreamSnapshot(stream, next_, header, b64decode(body)))
    answers = task.process([_record(offset) for offset in range(300, 400)]).assignments
    assert len(answers) == 100
    clusters = [cluster for model in task.models for cluster in model.engine.clusters()]
    assert clusters
    return digest(*(part for cluster in clusters for part in (cluster.centre, cluster.spread)))


KINDS = {
    **{
        name: Kind(MODELS[name][0]().revision, partial(lambda name: small(name).state(), name), partial(_engine, name))
        for name in MODELS
    },
    "prepare": Kind(preparation.REVISION, _prepared, _prepare),
    "prepare-robust": Kind(preparation.REVISION, partial(_prepared, robust=True, rescale=True), _prepare),
    "drift": Kind(drift.REVISION, _watch, _drift),
    "keywords": Kind(keywords.REVISION, lambda: _speak(Keywords(), 0), _keywords),
    # More words than a cluster has counters: what is new is admitted at random.
    "keywords-full": Kind(keywords.REVISION, lambda: _speak(Keywords(), 0, 12), partial(_keywords, further=12)),
    "checkpoint": Kind(stream_task.FORMAT, _checkpoint, _checkpoint_goes_on),
    "stream": Kind(stream_model.STATE_REVISION, _stream, _stream_goes_on),
}


def main() -> None:
    """Write what is missing."""
    known = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    for name, kind in KINDS.items():
        file = FOLDER / f"{name}@{kind.revision}.state"
        if not file.exists():
            FOLDER.mkdir(exist_ok=True)
            file.write_bytes(state := kind.make())
            known[file.stem] = kind.answers(state)
    ANSWERS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
