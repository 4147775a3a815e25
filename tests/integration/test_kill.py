"""The promise, under everything that ends a process: outputs and state are those of a run that never stopped.

The short form has every named point in one of its cases; one runs with all tests, the others at night. The long form
(100,000 records, 10 SIGKILL, 5 SIGTERM, 3 SIGSTOP of 15 s, every named point) takes about ten minutes for each case::

    make long WHAT=tests/integration/test_kill.py
"""

import json
import os
import random
import signal
from collections import Counter
from itertools import chain

import pytest
from resonance.pipeline.crash_points import FAULT_POINTS
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.records import Message
from resonance.pipeline.verify.output_refs import assignment_ref
from resonance.pipeline.verify.verify import verify

from tests import LONG
from tests.integration.chaos import OUTPUTS, Chaos, KeyedChaos, states
from tests.integration.chaos_records import datasets
from tests.integration.label_chaos import LabelChaos
from tests.night import at_night
from tests.pipeline.repartition.two_hops import by_id, by_record

pytestmark = [pytest.mark.broker, pytest.mark.slow]

CASES = [
    pytest.param("modal", "exactly_once", "key", id="modal-exactly-once"),
    at_night("hcaea", "exactly_once", "partition", id="hcaea-exactly-once"),
    at_night("modal", "at_least_once", "key", id="modal-at-least-once"),
    at_night("sa_art", "exactly_once", "key", id="sa-art-sparse"),
    at_night("mlca", "exactly_once", "field:group", id="mlca-exactly-once-labels"),
    at_night("caea", "exactly_once", "key", id="caea-streams-that-end"),
    at_night("modal", "exactly_once", "key", id="modal-many-in-a-message"),
    at_night("caea", "exactly_once", "field:group", id="caea-many-in-a-message-rekeyed"),
]
ONLY_LONG = [
    pytest.param("evq", "exactly_once", "key", id="evq-exactly-once"),
    pytest.param("ildn", "exactly_once", "key", id="ildn-exactly-once"),
    pytest.param("caea", "exactly_once", "key", id="caea-exactly-once"),
    pytest.param("caea", "at_least_once", "partition", id="caea-at-least-once"),
    pytest.param("caea", "exactly_once", "field:group", id="caea-exactly-once-rekeyed"),
]
SHORT = {
    "modal-exactly-once": ["kill", "during-commit", "after-offsets"],
    "hcaea-exactly-once": ["term", "in-revoke", "during-restore"],
    "modal-at-least-once": ["after-begin", "after-produce"],
    "sa-art-sparse": ["kill", "between-snapshot-chunks"],
    "mlca-exactly-once-labels": ["kill", "during-commit"],
    "caea-streams-that-end": ["kill", "during-commit", "between-snapshot-chunks"],
    "modal-many-in-a-message": ["kill", "during-commit"],
    "caea-many-in-a-message-rekeyed": ["kill", "after-produce"],
}
EAGER = {"drift.rarity": 100}
"""Every dead letter opens an alert, and a stream of a whole partition is long enough for events of drift."""
OWN = {"sa_art": {"input.sparse": "features", "prepare.scale": "given", "prepare.ranges": '{"*": [0, 16]}'}}
"""What an engine's case sets beside what all have."""
ENDS = {"limits.stream_ttl": 2.0, "input.time_path": "at", "prepare.warmup_records": 50}
"""What the case sets in which streams end."""


def test_the_short_form_reaches_every_named_point():
    assert set(FAULT_POINTS) <= {kind for kinds in SHORT.values() for kind in kinds}


@pytest.mark.parametrize(("engine", "delivery", "stream"), [*CASES, *(ONLY_LONG if LONG else ())])
def test_outputs_and_state_are_those_of_a_run_that_never_stopped(broker, request, tmp_path, engine, delivery, stream):
    seed = int(os.environ.get("RESONANCE_KILL_SEED", "1"))
    every = ["kill"] * 10 + ["term"] * 5 + ["stop"] * 3 + list(FAULT_POINTS)
    kinds = every if LONG else list(SHORT[request.node.callspec.id])
    random.Random(seed).shuffle(kinds)
    by_labels, ending = engine == "mlca", request.node.callspec.id == "caea-streams-that-end"
    many = "many-in-a-message" in request.node.callspec.id
    chaos = (LabelChaos if by_labels else Chaos)(
        broker,
        records=100_000 if LONG else 4_000 if by_labels else 8_000,
        settings={
            "engine.name": engine,
            "delivery.mode": delivery,
            "stream": stream,
            "snapshots.records": 300,
            "snapshots.archive_interval": 0.5,
            "limits.streams_in_memory": 2,
            **EAGER,
            **OWN.get(engine, {}),
            **(ENDS if ending else {}),
            **({"input.records": ".", "input.dimension": datasets()[0].shape[1]} if many else {}),
        },
        folder=tmp_path,
        seed=seed,
    )
    with chaos:
        chaos.disturb(kinds, stop_seconds=15)
        # Without a clean stop: the last records are in no snapshot.
        chaos.finish(signal.SIGKILL, timeout=600)
    tasks, expected = chaos.undisturbed()
    parts, ends = chaos.restored(), chaos.ends()
    from_archives = chaos.from_archives()
    again = sum(part.replayed for part in parts.values())
    case = request.node.callspec.id
    kinds = OUTPUTS if chaos.settings().emits_drift else OUTPUTS[:-1]
    counts = {kind: sum(map(len, expected[kind].values())) for kind in kinds}
    print(f"{case}, {chaos.records:,} records: {chaos.tally}; {again} learned again at the end; {counts}")  # noqa: T201

    if ending:
        assert sum(b"stream_ended" in event[1] for event in chain(*expected["cluster_events"].values())) > 10
    assert counts["assignments"] > 0.98 * chaos.records
    assert all(count for kind, count in counts.items() if stream == "partition" or kind != "drift_events")
    for kind in kinds:
        written = chaos.written(kind)
        for partition, said in expected[kind].items():
            messages, found = said, written.get(partition, [])
            if delivery == "at_least_once":
                found, repeats = without_repeats(found)
                assert repeats <= len(messages)
            if stream.startswith("field:"):
                # What is said of streams that are learned in several places takes turns as it happens.
                found, messages = sorted(found, key=repr), sorted(messages, key=repr)
            assert found == messages, first_difference(kind, partition, found, messages)

    if stream == "partition" or many:
        verdict = verify(chaos.settings(), Span.parse())
        assert verdict.identical
        assert many or {kind: verdict.total(kind) for kind in ("alerts", "drift_events")} == {
            kind: counts[kind] for kind in ("alerts", "drift_events")
        }

    if by_labels:
        classes = Counter(value for _, _, headers in chain(*expected["dead_letters"].values()) for _, value in headers)
        labelled = sum(task.counts.totals.labelled for task in tasks.values())
        if chaos.labelled is None:
            assert {b"too_late", b"already_labelled"} & classes.keys()
            assert labelled
        else:
            assert classes[b"too_late"] == 0
            assert classes[b"already_labelled"] == chaos.repeats > 10
            assert labelled == chaos.labelled > 1000
    for at, task in from_archives.items():
        assert {stream.stream: stream.body for stream in task.models.states()} == {
            stream.stream: stream.body for stream in tasks[at].models.states()
        }
    for at, task in tasks.items():
        restored = parts[at].task
        assert {name: restored.models.snapshot(name).body for name in task.models.pending(everything=True)} == states(
            task
        )
        assert parts[at].start == parts[at].committed == ends[at]
    assert chaos.tally.lag_at_last > 0, "the backlog was worked off before the last disturbance"
    assert again > 0
    assert not LONG or chaos.tally.refused >= 1


@pytest.mark.nightly
def test_a_keyed_hierarchy_says_what_one_task_says_whichever_hop_ends(broker, tmp_path):
    every = ["kill"] * 10 + ["term"] * 5 + ["stop"] * 3 + list(FAULT_POINTS)
    chaos = KeyedChaos(
        broker,
        records=100_000 if LONG else 4_000,
        settings={
            "hierarchy": "keyed",
            "engine.name": "hcaea",
            "engine.lambda": 20,
            "engine.min_cluster_records": 5,
            "engine.max_nodes": 40,
            "stream": "partition",
            "snapshots.records": 300,
        },
        folder=tmp_path,
        seed=int(os.environ.get("RESONANCE_KILL_SEED", "1")),
    )
    with chaos:
        chaos.disturb(every if LONG else ["kill", "during-commit"], stop_seconds=15)
        chaos.finish(signal.SIGKILL, timeout=600)
    expected = chaos.expected
    print(f"keyed, {chaos.records:,} records: {chaos.tally}")  # noqa: T201

    def emitted(kind):
        return [Message(*message) for found in chaos.written(kind).values() for message in found]

    assert by_record(emitted("assignments")) == by_record(expected.assignments)
    assert by_id(emitted("cluster_events")) == by_id(expected.cluster_events)
    dead_letters = [(m.key, m.value, list(map(tuple, m.headers))) for m in emitted("dead_letters")]
    assert sorted(dead_letters) == sorted((m.key, m.value, list(map(tuple, m.headers))) for m in expected.dead_letters)
    assert any("subtree" in json.loads(message.value) for message in emitted("cluster_events"))
    tasks, said = chaos.undisturbed()
    clusters = [Message(*message) for found in said["clusters"].values() for message in found]
    assert by_cluster(emitted("clusters")) == by_cluster(clusters)
    for at, part in chaos.restored().items():
        assert part.start == part.committed
        assert {s.stream: s.body for s in part.task.models.states()} == {
            s.stream: s.body for s in tasks[at].models.states()
        }
    assert any(task.models.names for (topic, _), task in tasks.items() if topic != chaos.deployment.input)
    verdict = verify(chaos.settings(), Span.parse())
    assert verdict.identical
    assert verdict.total("routes") > 0
    assert chaos.tally.lag_at_last > 0, "the backlog was worked off before the last disturbance"


def by_cluster(messages):
    """What is said of each cluster, in order; each partition of either hop has clusters of its own."""
    found = {}
    for message in messages:
        found.setdefault(message.key, []).append((message.value, list(map(tuple, message.headers))))
    return found


def without_repeats(found):
    """The messages without those that came before with the same bytes, and how many these are."""
    seen, kept = set(), []
    for message in found:
        whole = repr(message)
        if whole not in seen:
            seen.add(whole)
            kept.append(message)
    return sorted(kept, key=place), len(found) - len(kept)


def place(message):
    """Offset of an output's source: in its ``ce_id`` (topic-partition-offset), its value, or a header of its own."""
    headers = dict(message[2])
    if "ce_id" in headers:
        return int(headers["ce_id"].decode().split("/")[0].rpartition("-")[2])
    if (ref := assignment_ref(Message(*message))) is not None:
        return ref.offset
    return int(next(value for name, value in headers.items() if name.endswith(".error.offset")))


def first_difference(kind, partition, found, expected):
    """The place where two lists of outputs part."""
    for number, (one, two) in enumerate(zip(found, expected, strict=False)):
        if one != two:
            return f"{kind}[{partition}] {number}: {one} instead of {two}"
    return f"{kind}[{partition}]: {len(found)} instead of {len(expected)}"
