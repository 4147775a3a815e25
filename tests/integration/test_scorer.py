"""`Scorer` beside a real worker and its ``POST /assign``, on a real broker."""

import json
import urllib.error
import urllib.request

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.scorer import Scorer

from tests.brokers import produce
from tests.integration.workers import Deployment, records, wait_until
from tests.night import at_night

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


def assign(worker, value, partition):
    """What ``POST /assign`` answers."""
    try:
        place = f"assign?partition={partition}"
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/{place}", value, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("mode", ["exactly_once", at_night("at_least_once")])
def test_worker_and_scorer_answer_alike_at_the_same_version(broker, mode):
    deployment = Deployment(broker, partitions=2, settings={"delivery.mode": mode, "prepare.scale": "warmup"})
    produce(broker, deployment.input, records(1_200, 2))
    deployment.work(1_200)
    values = [value for _, _, value in records(40, 2, first=1_200)]
    with Scorer(Settings.of(deployment.settings), interval=0.2) as scorer, deployment.worker() as worker:
        worker.ready()
        assert {name: place.next for name, place in scorer.models.items()} == {"p0": 600, "p1": 600}
        wait_until(lambda: scorer.score(values[0], partition=0).model.time)
        for number, value in enumerate(values):
            code, live = assign(worker, value, number % 2)
            scored = json.loads(scorer.score(value, partition=number % 2).json())
            # A record without a time of its own has that of the request.
            for answer in (live, scored):
                del answer["assignment"]["time"], answer["model"]["time"]
            # Where the log ends is known soon.
            assert code == 200
            assert live["model"].pop("behind") in (0, None)
            # Markers of transactions stand there.
            assert scored["model"].pop("behind") <= 2
            assert live == scored
        assert assign(worker, b"{", 0)[0] == 422
        assert assign(worker, values[0], 2)[0] == 400

        # The live model is ahead of its snapshot, which the next one makes up for.
        produce(broker, deployment.input, records(400, 2, first=1_240))
        worker.wait_for(lambda health: health["records"] == 400)
        wait_until(lambda: assign(worker, values[0], 0)[1]["model"]["next"] >= 800)
        assert scorer.score(values[0], partition=0).model.behind >= 0
        assert worker.terminate() == 0
        wait_until(lambda: scorer.score(values[0], partition=0).model.next >= 800)
        assert not scorer.trouble
