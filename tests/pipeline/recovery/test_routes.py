"""Recoveries of re-keyed streams: no record is routed, and learned, a second time; without a broker."""

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.inspect import listing
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.recovery import recovery, reset, rollback
from resonance.pipeline.replay.bootstrapping import bootstrap

from tests.pipeline.memory_deployment import rekeyed
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.streams import TOPIC

AT = (TOPIC, 0)
MORE = {"snapshots__records": 120, "snapshots__ratio": 0}


@pytest.fixture
def deployment(monkeypatch):
    return rekeyed(monkeypatch, **MORE)


def hold_open(deployment, patch, *, ends):
    """Let a transaction of a killed worker hold back the last routes, until it is waited for if it `ends`."""
    whole = deployment.bounds

    def held(places):
        return {at: (first, max(end - 20 * (at[0] == ROUTES), 0)) for at, (first, end) in whole(places).items()}

    waited = []

    def settled(places, seconds):
        waited.extend((at, seconds) for at in places)
        return (whole if ends else held)(places)

    patch.setattr(deployment, "bounds", held)
    patch.setattr(deployment, "high_watermarks", lambda places: {at: end for at, (_, end) in whole(places).items()})
    patch.setattr(deployment, "settled_bounds", settled)
    return whole, waited


def routes_read(deployment):
    return [record for record in deployment.seen if record.topic == ROUTES]


def resume(deployment):
    deployment.seen.clear()
    return recovery.recover(mismatches.RESUME, deployment.source)


def plan_import(deployment, file):
    deployment.seen.clear()
    return rollback.plan_import(deployment.source, file)


def export(deployment):
    found = [state.checkpoint for state in listing.read_states(deployment.source, deployment)]
    return [checkpoint for checkpoint in found if checkpoint is not None]


def forget(deployment):
    deployment.write(deployment.source, reset.plan_reset(deployment.source))


def answered(deployment):
    """The sources of all answers of the newest version."""
    logs = [deployment.recorded("assignments", partition) for partition in range(2)]
    found = [orjson.loads(record.value) for log in logs for record in log]
    newest = max(answer["version"] for answer in found)
    return [tuple(answer["source"].values()) for answer in found if answer["version"] == newest]


def test_a_reset_begins_behind_the_routes_that_an_open_transaction_holds_back(deployment, monkeypatch):
    deployment.turn(0.4)
    whole, waited = hold_open(deployment, monkeypatch, ends=True)
    begins = {change.at: change.offset for change in reset.plan_reset(deployment.source)}
    places = [(ROUTES, partition) for partition in range(3)]
    assert {at: begins[at] for at in places} == {at: end for at, (_, end) in whole(places).items()}
    assert {(at, deployment.source.patience) for at in places} <= set(waited)


def test_a_bootstrap_begins_behind_them_too(deployment, monkeypatch):
    deployment.turn(0.4)
    forget(deployment)
    whole, _ = hold_open(deployment, monkeypatch, ends=True)
    bootstrap(deployment.given, [TOPIC], Span.parse(end="200"))
    places = [(ROUTES, partition) for partition in range(3)]
    assert {at: deployment.offsets[at] for at in places} == {at: end for at, (_, end) in whole(places).items()}


def lose_and_resume(deployment):
    del deployment.offsets[AT]
    resume(deployment)


def lose_and_import(deployment):
    del deployment.offsets[AT]
    plan_import(deployment, export(deployment))


def learn_silently(deployment):
    bootstrap(deployment.given, [TOPIC], Span.parse(end="200"))


@pytest.mark.parametrize("command", [forget, lose_and_resume, lose_and_import, learn_silently])
def test_nothing_is_done_while_a_transaction_stays_open_among_the_routes(deployment, monkeypatch, command):
    deployment.turn(0.4, everything=True)
    if command is learn_silently:
        forget(deployment)
    deployment.written.clear()
    hold_open(deployment, monkeypatch, ends=False)
    with pytest.raises(BrokerError, match=rf"{ROUTES}\[0\]: a transaction at offset \d+ did not end within 90 s"):
        command(deployment)
    assert deployment.written == []


def test_the_routes_are_not_read_where_no_offset_is_lost(deployment):
    deployment.turn(0.4, everything=True)
    assert resume(deployment) == 0
    # An offset of the routes is no input's.
    del deployment.offsets[ROUTES, 0]
    assert resume(deployment) == 1
    plan_import(deployment, export(deployment))
    assert routes_read(deployment) == []


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("after_a_reset", [False, True])
def test_a_lost_offset_is_set_only_where_no_later_record_is_routed(deployment, beyond, imported, after_a_reset):
    if after_a_reset:
        # Routes from before it do not count.
        deployment.turn(everything=True)
        forget(deployment)
    deployment.turn(0.4, everything=True)
    file = export(deployment)

    def set_again():
        if imported:
            deployment.write(deployment.source, plan_import(deployment, file))
        else:
            assert resume(deployment) == 1

    if beyond:
        deployment.turn(0.3, everything=imported, kept=imported)
        # With its offset an input stays where it is.
        there = {change.at: change.offset for change in plan_import(deployment, file)}
        assert there[AT] == deployment.offsets[AT]
    place = deployment.offsets.pop(AT)
    if beyond:
        with pytest.raises(MismatchError, match=rf"its records up to {place - 1} stand among the routes") as stopped:
            set_again()
        assert imported or stopped.value.remedies == (mismatches.RESET,)
        assert AT not in deployment.offsets
        assert routes_read(deployment)
        return
    set_again()
    assert routes_read(deployment)
    assert deployment.offsets[AT] == place
    deployment.turn()
    found = answered(deployment)
    assert len(found) == len(set(found)) == 900
