"""Clusters of records with texts are named by keywords, a function of the log alone."""

import random
import re
from collections import defaultdict
from itertools import pairwise, product

import numpy as np
import orjson
import pytest
from resonance.engine.base import Event, Step
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.kernels.arithmetic import mixed
from resonance.pipeline.checkpoint.deployment_context import settings_then
from resonance.pipeline.files.suggest import suggest
from resonance.pipeline.files.survey import FileSurvey
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.page import answers
from resonance.pipeline.page.view import DeploymentView
from resonance.pipeline.task.model import keywords
from resonance.pipeline.task.model.keywords import FIRST_LOOK, REST, Keywords
from resonance.pipeline.text import words
from resonance.pipeline.watch.sentences import portrait, sentence
from resonance.schemas import AutomaticNames, ClusterTable

from tests.pipeline import commands, streams
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import alike, payloads, points, records, run, settings, task, value_of
from tests.pipeline.task.test_partition_task import ENGINES, ONE_AND_A_TREE, changed

KINDS = [
    "please refund order {}: card declined at checkout",
    "app crashes when opening the settings screen, version {}",
    "parcel {} is late, delivery driver never arrived",
]
"""Tickets of three kinds."""
FILLING = tuple("hello team thanks the again yesterday account since help problem today support morning".split())  # noqa: SIM905
EMBEDDED = {
    "input__features": "embedding",
    "input__dimension": 4,
    "input__text_path": "ticket.text",
    "engine__memory": None,
    "engine__expire_records": None,
}


def tickets(count, far=4.0):
    """Records with an embedding and a text, of the kinds in turn at random."""
    rng = random.Random(0)
    log = records(points(count).tolist())
    for i, record in enumerate(log):
        kind = rng.randrange(len(KINDS))
        text = KINDS[kind].format(rng.randrange(10**6))
        text = " ".join([*rng.choices(FILLING, k=5), text.capitalize(), *rng.choices(FILLING, k=4)])
        vector = [rng.gauss(far * (axis == kind), 0.5) for axis in range(4)]
        log[i] = record._replace(value=orjson.dumps({"id": i, "embedding": vector, "ticket": {"text": text}}))
    return log


def moving(count):
    """Records whose clusters come, move and go, with texts that say where they are."""
    names = [*KINDS, "password reset link", "invoice missing for last month"]
    rows = points(count).tolist()
    log = records(rows)
    for i, row in enumerate(rows):
        text = None if i % 11 == 0 else f"{FILLING[i % 7]} {names[int(row[1] // 90) % 5]} {FILLING[i % 13]}"
        log[i] = log[i]._replace(value=value_of(row, id=i, **({} if i % 7 == 0 else {"text": text})))
    return log


def learn(made, clusters, texts, novel=False):
    count = len(texts)
    step = Step(np.full((count, 1), clusters), np.zeros(count), np.full(count, novel), np.zeros((count, 1), np.int64))
    made.take(step, range(count), texts, range(count), 0, count)


def counted(made, cluster):
    """Count and possible error of the words of a cluster."""
    tables, row = made._counts, made._rows[cluster]
    places = np.flatnonzero(tables.keys[row])
    names = [bytes(each[1 : 1 + each[0]]).decode() for each in tables.texts[row, places]]
    return dict(zip(names, zip(tables.counts[row, places], tables.errors[row, places], strict=True), strict=True))


# Counting


class SlowWords:
    """The same counts, word by word."""

    def __init__(self):
        self.sets = defaultdict(lambda: [None] * words.WAYS)
        self.total = 0

    def _entry(self, word):
        (key,) = words.keys_of(np.frombuffer(word.encode(), np.uint8), np.array([len(word.encode())])).tolist()
        own = self.sets[words.set_of(key)]
        return key, own, next((each for each in own if each and each[0] == word), None)

    def _add(self, word):
        key, own, entry = self._entry(word)
        if entry is not None:
            entry[1] = min(entry[1] + 1, self.total)
            return
        least = min(range(words.WAYS), key=lambda at: own[at][1] if own[at] else 0)
        floor = own[least][1] if own[least] else 0
        if mixed(np.uint64(key % 2**64), self.total) % np.uint64(floor + 1):
            return
        own[least] = [word, min(floor + 1, self.total), floor]

    def _is_frequent(self, word):
        entry = self._entry(word)[2]
        return entry is not None and entry[1] - entry[2] >= 4 and 16 * (entry[1] - entry[2]) >= self.total

    def add(self, text):
        sign = "\x01-&(-/:-@[-`{-\x7f\x80-\xbf\u0600-\u061f\u2000-\u2018\u201a-\u2bff\u3000-\u303f"
        sign += "\ufe00-\ufe3f\uff00-\uff3f\U0001f000-\U0001ffff"
        self.total += 1
        found = []
        for run_ in re.finditer(f"[^{sign}]+", text.lower()):
            if not re.search("[0-9'\u2019]", run_[0]) and 3 <= len(run_[0].encode()) <= words.WORD_BYTES:
                found.append(run_)
        found = found[: words.WORDS]
        for word in dict.fromkeys(each[0] for each in found):
            self._add(word)
        pairs = []
        for first, second in pairwise(found):
            name = f"{first[0]} {second[0]}"
            beside = text.lower()[first.end() : second.start()] in (" ", "-") and name not in pairs
            if beside and self._is_frequent(first[0]) and self._is_frequent(second[0]):
                self._add(name)
                pairs.append(name)
        if self.total > words.MEMORY:
            self.total >>= 1
            for own in self.sets.values():
                own[:] = [e and ([e[0], e[1] >> 1, e[2] >> 1] if e[1] > 1 else None) for e in own]

    def counted(self):
        return {each[0]: tuple(each[1:]) for own in self.sets.values() for each in own if each}


def test_the_kernel_counts_as_the_slow_version_does():
    rng = random.Random(3)
    vocabulary = [*FILLING, "Größe", "ÉCOLE", "возврат", "a1b2", "ab", "x" * 40, "don't", "card-declined", "naïve"]
    vocabulary += ["退款，", "崩溃！", "طلب،", "refund🎉", "can’t", "→ price€", "✅\ufe0f", "ⱡⱡ"]
    vocabulary += ["".join(rng.choices("abcdefgh", k=4)) for _ in range(400)]
    texts = []
    for _ in range(words.MEMORY + 900):
        weights = rng.choices(vocabulary[:25], k=4) + rng.choices(vocabulary, k=6)
        texts.append("".join(word + rng.choice((" ", " ", "-", ", ", "“", "\u00a0", "。")) for word in weights))
    texts += [" ".join(rng.choices(vocabulary, k=300)), "12 34", "\x01"]
    slow, made = SlowWords(), Keywords()
    for start in range(0, len(texts), 500):
        learn(made, 5, texts[start : start + 500])
    for text in texts:
        slow.add(text[: keywords.TEXT_CHARACTERS])
    assert counted(made, 5) == slow.counted()
    assert made._counts.total[made._rows[5]] == slow.total
    assert any(error for _, error in slow.counted().values())


def test_counts_stay_within_the_texts_where_all_words_are_of_one_set():
    every = ["".join(each) for each in product("abcdefghijklmnopqrstuvwxyz", repeat=3)]
    keys = words.keys_of(np.frombuffer("".join(every).encode(), np.uint8), 3 * np.arange(1, len(every) + 1))
    own, made = [word for word, key in zip(every, keys, strict=True) if words.set_of(key) == 0], Keywords()
    texts = [" ".join((own * 2)[at % len(own) :][: words.WORDS]) for at in range(0, 4_090 * words.WORDS, words.WORDS)]
    for cluster in (0, 1):
        learn(made, cluster, texts)
    made._due = made._seen
    for _ in range(2):
        again = Keywords.from_state(made.state())
        assert (again.state(), counted(again, 0)) == (made.state(), counted(made, 0))
        made.follow(Event(0, "absorbed", (), 2, 1, 0, (), ()))


def test_a_zero_byte_ends_a_word_and_not_a_text():
    made, other = Keywords(), Keywords()
    learn(made, 0, ["card\0declined", "refund"])
    learn(other, 0, ["card declined", "refund"])
    assert made.state() == other.state()


# Keywords


def test_clusters_are_named_by_their_words_and_never_by_numbers_of_an_embedding():
    worker = task(settings(**EMBEDDED))
    outputs = run(worker, tickets(2_500), 700)
    automatic, table, page, early = AutomaticNames(), ClusterTable(), DeploymentView("shop"), DeploymentView("shop")
    early.apply_cluster(outputs.clusters[0].key, outputs.clusters[0].value)
    assert answers.stream(early, "p0")["table"][0]["salient"]
    for event in payloads(outputs.cluster_events):
        automatic.apply(event)
        assert table.apply(event)
        assert not any(re.search(r"f\d", automatic.last(each["id"])) for each in event["after"])
        # The first ones come before there are words.
        assert bool(re.search(r"f\d ", sentence(event))) == (not any(each.get("keywords") for each in event["after"]))
    for message in outputs.clusters:
        page.apply_cluster(message.key, message.value)
    present = table.present("p0")
    rows = {row["id"]: (row["name"], row["salient"]) for row in answers.stream(page, "p0")["table"]}
    kinds = [set(re.findall("[a-z]{3,}", each)) for each in KINDS]
    for each in present:
        said, name = portrait(each), automatic.name(each, present)
        assert len(each["keywords"]) == len([kind for kind in kinds if kind & set(said.split())]) + 2 == 3
        assert set(re.findall("[a-z]+", said)) < set().union(*kinds)
        assert name == ", ".join(each["keywords"][:2])
        assert rows[each["id"]] == (said, [])
        assert answers.cluster(page, each["id"])["keywords"] == table.keywords(each["id"]) == each["keywords"]
    assert len(present) == 3
    assert [each["keywords"] for each in worker.models.clusters("p0")] == [each["keywords"] for each in present]
    assert sum(event["kind"] == "described" for event in payloads(outputs.cluster_events)) < 12


def test_long_texts_are_named_by_their_subjects_and_not_by_common_words_that_terse_ones_lack():
    rng, made = random.Random(0), Keywords()
    subjects = [("oil", "crude"), ("wheat", "tonnes", "export"), ("dividend", "payable", "split")]
    while made._seen < 512:
        kind = rng.randrange(3)
        likely = [*((word, 0.3) for word in subjects[kind]), *((word, 0.4 if kind == 2 else 0.9) for word in FILLING)]
        likely.append(("market", 0.9 if kind == 0 else 0.3))  # three quarters its cluster's: too few
        text = [word for word, share in likely if rng.random() < share]
        # Once and never again, as most words of a language.
        text += ["".join(rng.choices("abcdefghij", k=9)) for _ in range(10 if kind == 2 else 60)]
        rng.shuffle(text)
        learn(made, kind, [" ".join(text)])
        made.look()
    assert [sorted(made.of(kind)) for kind in range(3)] == [sorted(each) for each in subjects]


@pytest.mark.parametrize("engine", ONE_AND_A_TREE)
def test_batches_and_restarts_do_not_matter(engine):
    stops = (30, 63, 64, 65, 130, 678, 1_226)
    _, outputs = alike(changed(engine, input__text_path="text"), moving(1_500), stops)
    kinds = {event["kind"] for event in payloads(outputs.cluster_events)}
    assert {"described", "emerged"} <= kinds
    for event in payloads(outputs.cluster_events):
        for each in event["before"] + event["after"]:
            assert ("keywords" in each) == (event["level"] == 1)
            assert portrait(each)
    assert engine != ENGINES[0] or kinds & {"absorbed", "vanished"}


def test_the_setting_is_one_of_the_deployment_and_without_it_nothing_is_kept(monkeypatch):
    for path, kept in ((None, {}), ("text", {"input.text_path": "text"})):
        deployment = MemoryDeployment(monkeypatch, stream="partition", input__text_path=path)
        (identity,) = deployment.source.identities.values()
        assert {name: value for name, value in identity.limits.items() if "text" in name} == kept
        assert settings_then(deployment.given, identity).input.text_path == path
        worker = task(deployment.given)
        worker.process(moving(300))
        (model,) = worker.models
        assert (model.keywords is not None) == (b'"keywords"' in model.state()) == bool(kept)


def test_an_absorbed_cluster_gives_its_words_and_an_ended_one_takes_them_along():
    made = Keywords()
    learn(made, 0, ["card declined"] * 40)
    learn(made, 1, ["parcel late"] * 30)
    learn(made, 2, ["app crashes"] * 30)
    learn(made, 3, ["screen frozen"] * 30, novel=True)
    assert set(made._rows) == {0, 1, 2, REST}
    assert made.look()[2] == ([], ["app crashes"])
    made.follow(Event(0, "absorbed", (), 0, 1, 0, (), ()))
    assert counted(made, 0)["card"] == (40, 0)
    assert counted(made, 0)["parcel"] == (30, 0)
    made.follow(Event(0, "vanished", (), 1, 2, None, (), ()))
    assert (set(made._rows), made.of(2)) == ({0, REST}, [])
    # What is merged into full tables stays within its bounds.
    rng, truth = random.Random(1), defaultdict(int)
    for cluster in (0, 7):
        texts = [" ".join("".join(rng.choices("abcde", k=3)) for _ in range(9)) for _ in range(300)]
        learn(made, cluster, texts)
        made.look()
        for word in (word for text in texts for word in set(text.split())):
            truth[word] += 1
    made.follow(Event(0, "absorbed", (), 2, 7, 0, (), ()))
    assert len(made._counts.total) == 4
    found = {word: each for word, each in counted(made, 0).items() if len(word) == 3}
    assert len(found) > 50
    assert all(count - error <= truth[word] for word, (count, error) in found.items())
    assert Keywords.from_state(made.state()).state() == made.state()


def flipped(array):
    array = array.copy()
    array.reshape(-1)[np.flatnonzero(array)[0]] ^= 0xFF
    return array


@pytest.mark.parametrize(
    "changes",
    [
        *({name: flipped} for name in ("counts", "lengths", "words")),
        {"lengths": lambda own: own * 0 + 255, "words": lambda own: np.full(255 * 66, 97, np.uint8)},
        {"lengths": lambda own: own.astype(np.int64) + 256 * 10**9},
        {"lengths": lambda own: own[:, None]},
        {"counts": lambda own: own[:, :1]},
        {"clusters": [0, 0]},
        {"clusters": [1, 0]},
        {"clusters": [-2, 0]},
        {"clusters": [0, True]},
        {"texts": [10**30, 64]},
        {"texts": [64]},
        {"due": 10**6},
        {"due": "512"},
        {"seen": -5, "due": -5},
        {"seen": 0, "due": 0},
        *({"named": [named]} for named in ([0], [77, ["a"]], [0, [*"abcd"]], [0, ["x" * 66]], [0, [7]], [0, "abc"])),
    ],
    ids="-".join,
)
def test_a_damaged_or_forged_state_is_refused(changes):
    made = Keywords()
    for cluster in (0, 1):
        learn(made, cluster, ["card declined", "größe"] * FIRST_LOOK)
    header, arrays = unpack(made.state(), keywords.KIND, keywords.REVISION)
    for part, change in changes.items():
        if part in arrays:
            arrays[part] = change(arrays[part])
        else:
            header[part] = change
    with pytest.raises(StateError, match="keywords"):
        Keywords.from_state(pack(keywords.KIND, keywords.REVISION, header, arrays))


# Records


def test_what_is_no_text_is_a_dead_letter_and_none_is_fine():
    given = settings(input__text_path="text")
    rows = points(6).tolist()
    members = [{}, {"text": None}, {"text": 'a "quoted" \\ \u00e9\n'}, {"text": 7}, {"text": ["a"]}, {"text": ""}]
    columns = zip(records(rows), rows, members, strict=True)
    log = [each._replace(value=value_of(row, **own)) for each, row, own in columns]
    with streams.without_kernels():
        library = task(given)
        outputs = library.process(log)
        texts = library.mapping.decode([*log[:3], log[5]]).texts
    assert [streams.errors(message)["class"] for message in outputs.dead_letters] == ["wrong_type"] * 2
    assert texts == [None, None, members[2]["text"], ""]
    worker = task(given)
    assert worker.process(log) == outputs
    assert worker.mapping.decode(log).texts == texts


def test_incidents_say_the_keywords_in_whichever_order_outputs_come_and_alerts_do_not_depend_on_batches():
    given = settings(**EMBEDDED, engine__min_cluster_records=40)
    worker = task(given)
    log = [each for i, each in enumerate(tickets(10_500, 20.0)) if i > 1_600 or b"parcel" not in each.value.lower()]
    outputs = run(worker, log, 1_000)
    assert run(task(given), log, 7).alerts == outputs.alerts
    (opened, _) = [alert for alert in payloads(outputs.alerts) if alert["rule"] == "new_cluster"]
    present = {each["id"]: each for each in worker.models.clusters("p0")}
    said = portrait(present[opened["cluster"]])
    events = [(kind, each) for kind in ("cluster_events", "alerts") for each in payloads(getattr(outputs, kind))]
    for order in (events, events[::-1], events + events[:-20]):
        found = IncidentTable()
        for kind, payload in order:
            found.apply(kind, payload)
        (incident,) = (each for each in found.incidents() if opened["key"] in each["alerts"])
        assert incident["text"].startswith("p0: a new kind of records since ")
        assert incident["text"].endswith(f": {said}")


def test_keywords_are_in_the_report_of_an_evaluation_and_in_the_wide_table(tmp_path, monkeypatch, capsys):
    log = tickets(1_500)
    (tmp_path / "own.jsonl").write_bytes(b"\n".join(each.value for each in log))
    arguments = (str(tmp_path / "own.jsonl"), "--processes", "1", "-o", str(tmp_path / "out"))
    assert commands.run(monkeypatch, "evaluate", *arguments) == 0
    found = orjson.loads((tmp_path / "out" / "report.json").read_bytes())["detail"]["keywords"]
    assert len(found) == 3
    page = (tmp_path / "out" / "report.html").read_text()
    deployment = MemoryDeployment(monkeypatch, stream="partition", **EMBEDDED)
    deployment.logs[streams.TOPIC, 0] = log
    deployment.work(1_500, everything=True)
    capsys.readouterr()
    assert commands.run(monkeypatch, "inspect", "--stream", "p0", "--wide") == 0
    wide = capsys.readouterr().out
    for words_of in found.values():
        assert ", ".join(words_of) in page
        assert words_of[0] in wide


# Files


def test_a_column_of_sentences_is_suggested_beside_an_embedding_and_named_beside_numbers():
    rows = [
        {"v": [float(i), 1.0, 2.0], "n": i % 9 + 0.5, "body": f"hello number {'abcdefghijklmnop'[i % 16]}{i} and more"}
        for i in range(200)
    ]
    for names, suggested in ((("v", "body"), "body"), (("n", "body"), None)):
        found = suggest(FileSurvey([{name: row[name] for name in names} for row in rows]))
        assert found.settings.get("input.text_path") == suggested
        assert ("body" in found.left_out) == (suggested is None)
