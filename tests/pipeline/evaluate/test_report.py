"""The report: the page has the numbers of the document, needs nothing from outside, and shows text as text."""

import re
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import orjson
import pytest
from resonance.pipeline.evaluate import figures, pictures, report
from resonance.pipeline.evaluate.dataset import Dataset
from resonance.pipeline.evaluate.detail import MOST_CLUSTERS
from resonance.pipeline.evaluate.evaluation import Evaluation, Measured
from resonance.pipeline.evaluate.figures import Yardstick
from resonance.pipeline.evaluate.run import Run
from resonance.pipeline.evaluate.summary import best_sentence, document
from resonance.pipeline.evaluate.tables import tables

from tests.pipeline.commands import run
from tests.pipeline.evaluate.generated import GIVEN, SMALL, lines, write
from tests.pipeline.streams import TOPIC, settings


class Page(HTMLParser):
    """The tables and the other texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.tags, self.texts, self._cell = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._cell = self.tables[-1][-1]

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, data):
        self.texts.append(data)
        if self._cell is not None:
            self._cell[-1] += data


@pytest.fixture
def reported(tmp_path, monkeypatch):
    """Evaluate a file with `-o`, in few windows, and return the document and the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "WINDOWS", 5)

    def evaluate(*options, file="machines.jsonl", given=GIVEN):
        if not (tmp_path / file).exists():
            write(tmp_path / file)
        own = (*SMALL, "--processes", "1", "-o", "out", *options)
        assert run(monkeypatch, "evaluate", file, *given, *own) == 0
        content = orjson.loads((tmp_path / "out" / report.DATA).read_bytes())
        return content, (tmp_path / "out" / report.PAGE).read_text()

    return evaluate


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The document and the page of two candidates and a shuffled order."""
    folder = tmp_path_factory.mktemp("usual")
    file = str(write(folder / "machines.jsonl"))
    own = ["--truth", "kind", "-e", "modal", "-e", "evq", "--shuffle", "1", "--processes", "1", "-o"]
    with pytest.MonkeyPatch.context() as patch:
        assert run(patch, "evaluate", file, *GIVEN, *SMALL, *own, str(folder / "out")) == 0
    return orjson.loads((folder / "out" / report.DATA).read_bytes()), (folder / "out" / report.PAGE).read_text()


def cells(row):
    """A row of a table as a page shows it."""
    shown = [
        f"{each:,}" if isinstance(each, int) else f"{each:.4g}" if isinstance(each, float) else each for each in row
    ]
    return ["" if each is None else each.strip() for each in shown]


def test_the_page_has_the_numbers_of_the_document(usual):
    content, text = usual
    incidents, *found = Page(text).tables
    assert [row[2] for row in incidents[1:]] == [each["text"] for each in content["incidents"]] != []
    for number, table in enumerate(tables(content)):
        assert found[number][0] == list(table.columns)
        assert [[cell.strip() for cell in row] for row in found[number][1:]] == [cells(row) for row in table.rows]
    own = content["detail"]
    confusion = next(table for table in found if table[0] == ["cluster", *own["confusion"]["classes"]])
    rows = {
        name: [f"{count:,}" if count else "" for count in row] for name, row in own["confusion"]["clusters"].items()
    }
    assert {name: row for name, *row in confusion[1:]} == rows
    profile = next(table for table in found if table[0] == ["cluster", *own["profile"]["features"]])
    assert [row[0] for row in profile[1:]] == list(own["profile"]["clusters"])
    drifts = [table for table in found if table[0][:2] == ["record", "drift"]]
    assert [row[1] for table in drifts for row in table[1:]] == [each["text"] for each in own["drifts"]]
    assert content["command"] in "".join(Page(text).texts)


def test_the_details_are_those_of_the_records(usual):
    content, _ = usual
    own = content["detail"]
    for window in zip(*own["shares"].values(), strict=True):
        assert sum(window) == pytest.approx(1)
    assert sum(map(sum, own["confusion"]["clusters"].values())) == 1_200
    kinds = [line["kind"] for line in lines()]
    by_class = np.sum(list(own["confusion"]["clusters"].values()), axis=0).tolist()
    assert dict(zip(own["confusion"]["classes"], by_class, strict=True)) == {
        **{kind: kinds.count(kind) for kind in ("k0", "k1", "k2")},
        "others": 0,
    }
    # A cluster of kind 0: its latency is about 100, in the units of the input, that of the rest is far from it.
    largest = max(own["confusion"]["clusters"], key=lambda name: own["confusion"]["clusters"][name][0])
    place = own["profile"]["features"].index("latency_ms")
    cell = own["profile"]["clusters"][largest][place]
    mine = [kind == own["confusion"]["classes"][0] for kind in kinds]
    expected = np.mean([line["latency_ms"] for line, is_mine in zip(lines(), mine, strict=True) if is_mine])
    assert cell["mean"] == pytest.approx(expected, rel=0.05)


def test_the_page_asks_nobody_for_anything_and_is_small(usual):
    _, text = usual
    page = Page(text)
    assert len(text) < 1_000_000
    assert {"script", "link", "iframe"} & {tag for tag, _ in page.tags} == set()
    pictures = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) >= 3
    for picture in pictures:
        assert picture.startswith("data:image/svg+xml;base64,")
        assert b"<script" not in b64decode(picture.partition(",")[2])
    assert not any({"href", "srcset"} & attributes.keys() for _, attributes in page.tags)
    assert not re.search(r"url\(|@import", text)
    assert "prefers-color-scheme:dark" in text


def test_text_of_users_is_shown_as_text(reported, tmp_path):
    evil = "<script>alert('$x^{$')</script>"
    rows = [{**line, "kind": f"{evil}{line['kind']}"} for line in lines()]
    (tmp_path / "evil.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    content, text = reported("--truth", "kind", "--set", "stream=partition", file="evil.jsonl")
    assert f"{evil}k0" in content["detail"]["confusion"]["classes"]
    assert "<script" not in text
    assert any(f"{evil}k0" in cell for table in Page(text).tables for cell in table[0])


def test_thousands_of_clusters_make_a_small_page(tmp_path):
    rows, kinds = np.random.default_rng(0).random((6_000, 3)), np.arange(6_000, dtype=np.int32) % 3_000
    log, names = np.zeros(6_000, dtype=np.int32), [f"p0/1/{number}" for number in range(3_000)]
    data = Dataset([(TOPIC, 0)], log, np.arange(6_000), ("a", "b", "c"), rows, kinds, names, [])
    flags, events = np.zeros(6_000, dtype=bool), [(at, _emerged(at)) for at in range(3_000)]
    run = Run(kinds, names, log, ["p0"], kinds, [(name,) for name in names], flags, log - 1, [], events)
    yardstick = Yardstick(data, settings())
    one = Measured("many", run, yardstick.whole(run) | {"bytes": 1}, yardstick.by_window(run))
    found = Evaluation(data, yardstick, [one], [], "ari", [])
    report.make_folder(tmp_path / "out")
    report.of_evaluation(found, document(found, "rows", "resonance evaluate rows")).save(tmp_path / "out")
    content = orjson.loads((tmp_path / "out" / report.DATA).read_bytes())
    assert one.whole["ari"] == one.whole["completeness"] == 1.0
    assert one.whole["clusters"] == 3_000
    assert len(content["detail"]["profile"]["clusters"]) == MOST_CLUSTERS
    assert len(content["detail"]["confusion"]["clusters"]) == MOST_CLUSTERS + 2
    for name in (report.DATA, report.PAGE):
        assert (tmp_path / "out" / name).stat().st_size < 1_000_000


def _emerged(at):
    cause = {"source": {"topic": TOPIC, "partition": 0, "offset": at}}
    event = {"kind": "emerged", "stream": "p0", "version": 1, "level": 1, "cluster": f"p0/1/{at}"}
    return event | {"before": [], "after": [], "cause": cause, "time": "2026-01-01T00:00:00.000Z"}


def test_sparse_records_have_a_silhouette(reported, tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"words": {f"w{kind}{n}": 1.0 for n in rng.integers(0, 30, 6).tolist()}, "kind": f"k{kind}"}
        for kind in rng.integers(0, 3, 600).tolist()
    ]
    (tmp_path / "texts.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    given = ["--topics", "texts", "--set", "input.sparse=words"]
    content, text = reported("-e", "sa_art", "--truth", "kind", file="texts.jsonl", given=given)
    assert content["features"] == []
    assert "sparse records" in " ".join(content["notes"])
    assert "k-means, k = 3" in text
    assert content["baselines"][1]["figures"]["ari"] > 0.9
    (candidate,) = reported("-e", "sa_art", file="texts.jsonl", given=given)[0]["candidates"]
    assert -1 < candidate["figures"]["silhouette"] < 1


def test_a_folder_that_cannot_be_written_and_a_missing_library_end_in_a_sentence(
    tmp_path, monkeypatch, capsys, printed
):
    monkeypatch.chdir(tmp_path)
    file = str(write(tmp_path / "machines.jsonl"))
    assert run(monkeypatch, "evaluate", file, *GIVEN, "-o", str(tmp_path / "machines.jsonl" / "x")) == 2
    assert "cannot be made" in capsys.readouterr().err
    monkeypatch.setattr("resonance.pipeline.cli.evaluate.find_spec", lambda name: None)
    assert "evaluate needs scikit-learn, which is not installed" in printed(run, "evaluate", file, *GIVEN, code=2).err


@pytest.mark.parametrize("count", [1, 3, 15])
def test_records_without_any_cluster_have_a_report(count, reported, tmp_path):
    write(tmp_path / "few.jsonl", count=count)
    content, text = reported("--truth", "kind", file="few.jsonl")
    assert (content["records"], content["detail"]["clusters"]) == (count, [])
    assert content["candidates"][0]["figures"]["unanswered"] == 1.0
    assert "How to reproduce it" in text


def test_a_figure_of_zero_is_better_than_one_below_it():
    figures = {
        f"candidate {number}": {"ari": -number / 10, "largest": 0.5} for number in range(pictures.MOST_CURVES + 1)
    }
    document = {
        "candidates": [{"name": name, "figures": own, "windows": [own]} for name, own in figures.items()],
        "baselines": [],
        "best": {"by": "ari"},
        "windows": [0, 10],
    }
    shown = b64decode(pictures.curves(document).partition(",")[2]).decode()
    assert "candidate 0" in shown
    assert f"candidate {pictures.MOST_CURVES}" not in shown


@pytest.mark.parametrize(("records", "said"), [(100, "; of the last 100 alone modal has 0.900"), (99, "has ari 0.100")])
def test_what_the_best_candidate_came_to_is_said_where_its_last_records_are_many(records, said):
    content = {
        "candidates": [{"name": "modal", "figures": {"ari": 0.1}, "windows": [{"ari": 0.0}, {"ari": 0.9}]}],
        "baselines": [],
        "best": {"candidate": "modal", "by": "ari", "value": 0.1, "next": None},
        "windows": [0, 50, 50 + records],
    }
    assert best_sentence(content).endswith(said)
