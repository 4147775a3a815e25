"""``resonance snapshots``: list, export and import; without a broker."""

import hashlib
import re
from pathlib import Path

import orjson
import pytest
from resonance.pipeline.checkpoint.codec import _pieces, read_file, write_file
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.recovery.reset import reset

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC

AT = (TOPIC, 0)


class Desk:
    """A deployment and the commands."""

    def __init__(self, patch, output):
        self._patch, self._output = patch, output
        self.deployment = MemoryDeployment(patch)

    def run(self, *arguments, code=0):
        """Run a command; return its output, of an error its message."""
        assert run(self._patch, "snapshots", *arguments) == code
        text = self._output.readouterr()
        return text.err if code else text.out

    def json(self, *arguments, code=0):
        return orjson.loads(self.run(*arguments, "--json", code=code))

    def become(self, **changes):
        """Give the deployment other settings over the same topics."""
        logs, offsets = self.deployment.logs, self.deployment.offsets
        self.deployment = MemoryDeployment(self._patch, **changes)
        self.deployment.logs, self.deployment.offsets = logs, offsets


@pytest.fixture
def desk(monkeypatch, capsys):
    return Desk(monkeypatch, capsys)


def streams_of(file):
    return [list(partition.streams) for partition in read_file(Path(file))]


def test_the_list_has_every_stream(desk):
    assert desk.json("list") == []
    desk.deployment.work(300, everything=True)
    desk.deployment.offsets[AT] = 320
    (a, b) = desk.json("list")
    assert (a["stream"], a["topic"], a["partition"], a["next"], a["behind"]) == ("p0:a", TOPIC, 0, 300, 20)
    assert (b["stream"], b["version"], b["engine"]) == ("p0:b", 1, "modal")
    assert a["revision"] == desk.deployment.source.identities[TOPIC].revision
    assert a["bytes"] > 1_000
    assert a["age_seconds"] > 0
    lines = desk.run("list").splitlines()
    assert lines[0].split()[:3] == ["stream", "version", "next"]
    assert lines[1].split()[:3] == ["p0:a", "1", "300"]


def test_what_was_exported_comes_back_and_gives_the_same_answers(desk):
    desk.deployment.work(100, everything=True)
    # What follows is in no snapshot: it is learned again.
    desk.deployment.work(200)
    assert "before: 2 streams of 1 partition," in desk.run("export", "before")
    rest = desk.deployment.work(600, everything=True)
    planned = desk.json("import", "before")
    assert (planned["done"], planned["topics"]) == (False, ["resonance.snapshots"])
    assert (planned["partitions"][0]["from"], planned["partitions"][0]["to"]) == (600, 200)
    assert desk.deployment.written == []
    desk.run("import", "before", "--yes")
    assert desk.deployment.waited == [0]
    desk.run("export", "after")
    assert streams_of("after") == streams_of("before")
    assert desk.deployment.work(600).assignments == rest.assignments


def test_what_was_emitted_since_must_come_out_the_same(desk):
    # Nothing has to be learned again for the snapshots; but 300 records are answered a second time.
    desk.deployment.work(200, everything=True)
    desk.run("export", "file")
    desk.deployment.work(500, everything=True)
    desk.become(limits__record_bytes=60)
    text = desk.run("import", "file", "--yes", code=65)
    assert "offsets 200 to 499 must be learned again and would now give other models: limits.record_bytes was" in text
    desk.deployment.offsets[AT] = 200
    assert desk.json("import", "file")["partitions"][0]["to"] == 200


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": "other"}, "belongs to pipeline resonance, this one is other"),
        ({"engine__memory": 300}, "engine.memory was 100, is 300; set settings and release back"),
        ({"limits__streams": 9}, "limits.streams was 10000, is 9"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(desk, changes, text):
    desk.deployment.work(200)
    desk.run("export", "file")
    desk.become(**changes)
    for topic, partition in list(desk.deployment.logs):
        if topic.startswith("resonance."):
            desk.deployment.logs[topic.replace("resonance.", f"{desk.deployment.given.name}."), partition] = []
    message = desk.run("import", "file", "--yes", code=65)
    assert message.startswith("error: file cannot be imported: ")
    assert text in message
    assert "resonance worker" not in message
    assert desk.deployment.written == []


def test_a_file_is_never_written_over(desk):
    desk.deployment.work(200)
    Path("mine").write_text("precious")
    assert "mine: there is such a file" in desk.run("export", "mine", code=2)
    assert Path("mine").read_text() == "precious"


def test_half_a_file_is_in_no_ones_way(tmp_path):
    def broken():
        yield from ()
        raise OSError(28, "No space left on device")

    path = tmp_path / "states.jsonl"
    with pytest.raises(ConfigurationError, match="cannot be written: No space left on device"):
        write_file(path, broken())
    assert not path.exists()


@pytest.mark.parametrize(
    ("harm", "shown"),
    [
        (lambda text: text[:-20], "holds no snapshots that `resonance` wrote"),
        (lambda text: text[: text.rindex(b'{"end"')], "is cut off: its last line is missing"),
        (lambda text: text[: text.rindex(b'{"end"') - 9], "is cut off: its last line is missing"),
        (lambda text: text + b"{}\n", "has something behind its end"),
        (lambda text: text.replace(b'"next":200', b'"next":100'), "is damaged: its checksum does not fit"),
        (lambda text: text[:-150] + b"x" + text[-149:], "is damaged: its checksum does not fit"),
        (lambda text: text.replace(b'"format":4', b'"format":1', 1), "has format 1, this release reads format 4"),
        (lambda text: text.replace(b'"format":3', b'"format":1', 1), "is of another release: its record: "),
        (lambda text: re.sub(rb'"size":[0-9]+', b'"size":10000000000000', text, count=1), "holds no snapshots"),
        (lambda _: b'{"kind":"else"}\n', "holds no snapshots"),
        (lambda _: b"\x00\xff", "holds no snapshots"),
        (lambda _: b"", "holds no snapshots"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(desk, harm, shown):
    desk.deployment.work(200, everything=True)
    desk.run("export", "file")
    Path("file").write_bytes(harm(Path("file").read_bytes()))
    with pytest.raises(InputFileError, match=shown):
        read_file(Path("file"))
    assert desk.run("import", "file", code=66).startswith("error: file")


def seal(path, pieces):
    """Write a file whose checksum fits, whatever stands in it."""
    text = b"".join(pieces)
    path.write_bytes(text + orjson.dumps({"end": hashlib.sha256(text).hexdigest()}) + b"\n")


@pytest.mark.parametrize(
    ("line", "members", "value", "shown"),
    [
        *(
            (1, ("record", "partition"), -1, "features[-1] is no input partition"),
            (1, ("timestamp",), "1", "holds no snapshots"),
        ),
        *((1, ("record", "topic"), 7, "holds no snapshots"), (1, ("record", "inputs"), [7], "holds no snapshots")),
        (1, ("record", "replay_from"), "1", "holds no snapshots"),
        *(
            (1, ("record", "position"), None, "holds no snapshots"),
            (1, ("record", "settings"), [], "holds no snapshots"),
        ),
        (1, ("record", "state"), "", "the state of the partition cannot be read"),
        *((2, ("next",), 1e300, "holds no snapshots"), (2, ("next",), 2**63, "the state of stream p0:a contradicts")),
        *(
            (2, ("stream",), "p1:a", "stream p1:a is none of this partition"),
            (2, ("header",), {}, "stream p0:a"),
            (2, ("size",), -1, "is cut off"),
            (2, ("size",), "1", "holds no snapshots"),
        ),
        (2, ("header", "version"), "one", "the state of stream p0:a contradicts"),
        (2, ("header", "format"), "one", "the state of stream p0:a cannot be loaded"),
    ],
)
def test_what_a_file_says_is_not_believed(desk, line, members, value, shown):
    desk.deployment.work(200, everything=True)
    desk.run("export", "file")
    pieces = list(_pieces(read_file(Path("file"))))
    place = changed = orjson.loads(pieces[line])
    for member in members[:-1]:
        place = place[member]
    place[members[-1]] = value
    pieces[line] = orjson.dumps(changed) + b"\n"
    seal(Path("file"), pieces)
    code = 66 if shown in ("holds no snapshots", "is cut off") else 65
    assert shown in desk.run("import", "file", "--yes", code=code)
    assert desk.deployment.written == []


def test_nothing_goes_back_behind_a_version_that_no_snapshot_shows_yet(desk):
    deployment = desk.deployment
    deployment.work(200, everything=True)
    desk.run("export", "file")
    deployment.firsts[AT] = 50
    reset(deployment.source)
    assert b"/2/" in b"".join(message.value or b"" for message in deployment.work(400).cluster_events)
    assert "has begun version 2 since" in desk.run("import", "file", "--yes", code=65)


def test_a_missing_file_is_one_line(desk):
    assert desk.run("import", "nowhere", code=66) == "error: nowhere cannot be read: No such file or directory\n"
