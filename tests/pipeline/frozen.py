"""Logs of a dozen deployments, and a digest of every byte that stands on their topics after them.

``python -m tests.pipeline.frozen`` writes the digests of now into tests/data/frozen_bytes.json: after a change of what
is meant to stand there, and never to let a test pass.
"""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.recovery import recovery

from tests.pipeline.commands import run
from tests.pipeline.labels.test_label_restarts import deployed as labelled
from tests.pipeline.memory_deployment import KEYED, MemoryDeployment
from tests.pipeline.memory_deployment import rekeyed as both_hops
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.sparse_streams import by_name, entries, sparse_records
from tests.pipeline.streams import TOPIC, settings

DIGESTS = Path(__file__).parents[1] / "data" / "frozen_bytes.json"


def command(patch, deployment, *arguments):
    """Run a command on a deployment."""
    assert run(patch, *arguments) == 0


def dense(patch):
    """Two partitions, two streams in each, snapshots when they are due, an archive on the way."""
    made = MemoryDeployment(patch, 2)
    made.work(250)
    made.work(400, archive=True)
    made.work(600, everything=True)
    return made


def caea(patch):
    """Another engine, features that the first records name, records that are no use."""
    made = MemoryDeployment(patch, engine__name="caea", input__features="x", input__id_path="id")
    log = made.logs[TOPIC, 0]
    for i, record in enumerate(log):
        x = orjson.loads(record.value)
        log[i] = record._replace(value=orjson.dumps({"id": x.pop("id"), "x": {**x, "net": i % 7}}))
    for offset, value in ((3, b"{"), (71, b'{"x": {"cpu": 1}}'), (150, b"[]"), (300, None), (599, b'{"x": "much"}')):
        log[offset] = log[offset]._replace(value=value)
    made.work(300)
    made.work(600)
    return made


def crashed(patch):
    """A worker that was killed after commits without a snapshot."""
    made = MemoryDeployment(patch)
    made.work(200, everything=True)
    made.work(330, snapshots=False)
    made.work(600)
    return made


def rounded(patch):
    """Features in steps, which are spread by the number of each record, over a crash."""
    made = MemoryDeployment(patch)
    log = made.logs[TOPIC, 0]
    for i, record in enumerate(log):
        value = orjson.loads(record.value)
        value |= {"cpu": round(value["cpu"], 1), "latency_ms": round(value["latency_ms"], -1)}
        log[i] = record._replace(value=orjson.dumps(value))
    made.work(200, everything=True)
    made.work(330, snapshots=False)
    made.work(600, everything=True)
    return made


def reset(patch):
    """Everything begins anew."""
    made = MemoryDeployment(patch)
    made.work(400, everything=True, archive=True)
    command(patch, made, "reset", "--topics", TOPIC, "--yes")
    made.work(600)
    return made


def reset_stream(patch):
    """One stream begins anew."""
    made = MemoryDeployment(patch)
    made.work(300)
    command(patch, made, "reset", "--topics", TOPIC, "--stream", "p0:a", "--yes")
    made.work(600)
    return made


def rolled_back(patch):
    """Back to an archive, and on from there."""
    made = MemoryDeployment(patch)
    made.work(200, everything=True, archive=True)
    made.work(450, everything=True, archive=True)
    command(patch, made, "reset", "--topics", TOPIC, "--to-archive", "300", "--yes")
    made.work(600)
    return made


def imported(patch):
    """Back to snapshots from a file."""
    made = MemoryDeployment(patch)
    made.work(200, everything=True)
    with TemporaryDirectory() as folder:
        file = f"{folder}/states.jsonl"
        command(patch, made, "snapshots", "export", file)
        made.work(350, everything=True)
        command(patch, made, "snapshots", "import", file, "--yes")
    made.work(600)
    return made


def new_version(patch):
    """Other settings, and new models where the old ones stood."""
    made = MemoryDeployment(patch)
    made.work(350, everything=True)
    made.take_settings(settings(stream="key", engine__memory=101))
    recovery.recover(mismatches.NEW_VERSION, made.source)
    made.work(600)
    return made


def sparse(patch):
    """Words of a vocabulary that grows."""
    made = MemoryDeployment(
        patch,
        **dict.fromkeys(("input__features", "engine__min_cluster_records", "prepare__warmup_records")),
        input__sparse="words",
        engine__name="sa_art",
        engine__lambda=None,
    )
    words = [by_name(record) for record in entries(600)]
    made.logs[TOPIC, 0] = sparse_records(words, (b"a", b"b"))
    made.work(300)
    made.work(600)
    return made


def labels(patch):
    """Labels that come later, through routes, to workers that are killed."""
    made = labelled(patch)
    made.turn(0.3, archive=True, everything=True)
    made.turn(0.3, only=TOPIC, lost=True)
    made.turn(0.5)
    made.turn()
    made.turn()
    return made


def rekeyed(patch):
    """Streams by a field, with killed workers, a new version and an archive."""
    made = both_hops(patch)
    made.turn(0.4, archive=True, everything=True)
    made.turn(0.5, only=TOPIC, lost=True)
    made.turn(0.5)
    made.take_settings(settings(stream="field:country", input__id_path="id", engine__memory=300))
    recovery.recover(mismatches.NEW_VERSION, made.source)
    made.turn()
    made.turn(only=ROUTES)
    return made


def keyed(patch):
    """The levels of a hierarchy in tasks of their own, with killed workers."""
    made = both_hops(patch, **KEYED, snapshots__records=150)
    made.turn(0.4, archive=True)
    made.turn(0.3, only=TOPIC, lost=True)
    made.turn(0.7, only=ROUTES)
    made.turn(0.4, archive=True)
    made.turn(0.5, only=ROUTES, lost=True)
    made.turn()
    made.turn()
    return made


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        *(dense, caea, crashed, rounded, reset, reset_stream, rolled_back),
        *(imported, new_version, sparse, labels, rekeyed, keyed),
    )
}


def digests(deployment):
    """Digest of every topic that the deployment writes, and of its offsets."""
    given = deployment.given
    own = {*given.input.topics, given.labels.topic}
    found = {}
    for topic in sorted({topic for topic, _ in deployment.logs} - own):
        digest = hashlib.sha256()
        for (name, partition), log in sorted(deployment.logs.items()):
            if name == topic:
                for record in log:
                    digest.update(repr((partition, *record[2:7])).encode())
        found[topic.removeprefix("resonance.")] = digest.hexdigest()[:16]
    places = sorted(deployment.offsets.items()), sorted(deployment.beside.items())
    return {**found, "offsets": hashlib.sha256(repr(places).encode()).hexdigest()[:16]}


def main():
    found = {}
    for name, scenario in SCENARIOS.items():
        with pytest.MonkeyPatch.context() as patch:
            found[name] = digests(scenario(patch))
    DIGESTS.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    main()
