"""A command that delivers at least once is killed behind any of its messages: everything before is stored."""

from copy import deepcopy
from functools import partial
from itertools import count

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.recovery import recovery, rewrite
from resonance.pipeline.recovery.reset import plan_stream_reset

from tests.night import at_night
from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC, payloads, settings

AT = (TOPIC, 0)
CHANGED = settings(stream="key", engine__memory=101)


class KilledError(Exception):
    """The command was killed."""


class CutDeployment(MemoryDeployment):
    """A deployment whose commands are killed behind some number of messages."""

    cut = None

    def write(self, source, changed):
        """Store messages in the order of `rewrite.write` up to the cut, and the offsets behind all of them."""
        left = count() if self.cut is None else range(self.cut)
        messages = (
            (topic, change.at[1], message)
            for change in changed
            for topic, some in (
                (source.archive, change.archive),
                (source.snapshots, change.messages),
                (source.settings.topic("clusters"), change.clusters),
                *((batch.topic, batch.messages) for batch in change.outputs),
            )
            for message in some
        )
        for _, (topic, partition, message) in zip(left, messages, strict=False):
            self.append((topic, partition if message.partition is None else message.partition), message)
        if self.cut is not None:
            self.whole = next(messages, None) is None
            raise KilledError
        for change in changed:
            self.offsets[change.at], self.beside[change.at] = change.offset, rewrite.metadata_of(source, change)

    def state(self):
        return deepcopy((self.logs, self.offsets, self.beside, self._archived))

    def go_back(self, state):
        self.logs, self.offsets, self.beside, self._archived = deepcopy(state)


@pytest.fixture
def deployment(monkeypatch):
    """Its snapshots have several chunks."""
    made = ChangelogWriter.__init__

    def small(writer, *own, **named):
        made(writer, *own, **named)
        writer._chunk_bytes = 8_000

    monkeypatch.setattr(ChangelogWriter, "__init__", small)
    deployment = CutDeployment(monkeypatch)
    deployment.emitted = [deployment.work(200, everything=True, archive=True)]
    return deployment


def stopped(deployment):
    """A worker that has ended after a snapshot of everything."""
    deployment.emitted.append(deployment.work(400, everything=True))


def killed(deployment):
    """A worker that was killed after commits without snapshots."""
    deployment.emitted.append(deployment.work(300, everything=True))
    deployment.emitted.append(deployment.work(400, snapshots=False))


def reset(deployment, _):
    recovery.reset(deployment.source)


def changed_reset(deployment, _):
    deployment.take_settings(CHANGED)
    recovery.reset(deployment.source)


def new_version(deployment, _):
    deployment.take_settings(CHANGED)
    recovery.recover(mismatches.NEW_VERSION, deployment.source)


def stream_reset(deployment, _):
    change = plan_stream_reset(deployment.source, "p0:a")
    rewrite.write(deployment.source, [change])


def to_archive(deployment, patch):
    run(patch, "reset", "--topics", TOPIC, "--to-archive", "250", "--yes")


def imported(deployment, patch):
    run(patch, "snapshots", "import", deployment.file, "--yes")


def answers(outputs):
    """Answer to each record of a stream."""
    return {(found["stream"], found["source"]["offset"]): found for found in payloads(outputs.assignments)}


def ids(outputs):
    return {event["cluster"] for event in payloads(outputs.cluster_events) if event["cluster"]}


def start(deployment):
    """What a worker emits that starts now; None where it is refused. Nothing is changed."""
    before = deployment.state()
    try:
        return deployment.work(500)
    except MismatchError:
        return None
    finally:
        deployment.go_back(before)


def by_stream(found, begin=0):
    """Answers from an offset on, by stream."""
    return {
        stream: {offset: found[name, offset] for name, offset in found if name == stream and offset >= begin}
        for stream in sorted({stream for stream, _ in found})
    }


def without_version(found):
    """Answers as they are under any version."""
    text = orjson.dumps({f"{name} {offset}": answer for (name, offset), answer in found.items()}).decode()
    versions = {(name, answer["version"]) for (name, _), answer in found.items()}
    for name, version in versions:
        text = text.replace(f'"{name}/{version}/', f'"{name}//').replace(f'"version":{version},', "")
    return text


@pytest.mark.parametrize("before", [stopped, at_night(killed)])
@pytest.mark.parametrize(
    "command",
    [
        *(at_night(each) for each in (changed_reset, stream_reset)),
        *(reset, new_version, to_archive, imported),
    ],
)
def test_behind_every_message_models_are_the_old_or_the_new_ones_or_a_start_is_refused(
    deployment, monkeypatch, tmp_path, before, command
):
    deployment.file = str(tmp_path / "states.jsonl")
    assert run(monkeypatch, "snapshots", "export", deployment.file) == 0
    before(deployment)
    first, given = deployment.state(), deployment.given
    used = set().union(*map(ids, deployment.emitted))
    assert used
    old = answers(start(deployment))
    do = partial(command, deployment, monkeypatch)
    do()
    new = answers(start(deployment))
    refused = []
    for cut in count():
        deployment.go_back(first)
        deployment.take_settings(given)
        deployment.cut = cut
        with pytest.raises(KilledError):
            do()
        deployment.cut = None
        found = start(deployment)
        refused.append(found is None)
        if found is not None:
            begun = by_stream(answers(found))
            for stream, own in begun.items():
                allowed = [by_stream(each, 400)[stream] for each in (old, new)]
                # The models of before, under settings that are not theirs.
                assert own in allowed[command in (changed_reset, new_version) :], (cut, stream)
        do()
        read_tables(deployment, deployment.source, [0])
        again = start(deployment)
        assert without_version(answers(again)) == without_version(new), cut
        if command in (reset, to_archive, imported):
            assert answers(again) == new
        else:
            own = {one for one in ids(again) if command is not stream_reset or one.startswith("p0:a/")}
            assert own
            assert not own & used, cut
        if command in (reset, changed_reset, to_archive, imported):
            assert_only_named_chunks(deployment)
        if deployment.whole:
            break
    assert cut > 4
    assert any(refused) == (command is not stream_reset)
    assert not refused[-1]


def assert_only_named_chunks(deployment):
    (table,) = read_tables(deployment, deployment.source, [0]).values()
    named = {key for manifest in table.manifests() for key in manifest.keys}
    assert {key for key in table.keys if key.startswith(b'["chunk",')} == named
