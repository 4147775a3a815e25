"""The driver itself: some of its faults, and judges that see what is wrong; ``make chaos`` is the long form."""

import random

import pytest

from tests.brokers import produce, read_topic
from tests.chaos import judges
from tests.chaos.faults import FAULTS, broker_kill, cut, kill, plan
from tests.chaos.lab import lab
from tests.conftest import or_skipped


@pytest.mark.broker
@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_faults_cost_no_answer_and_a_wrong_one_is_seen():
    rng = random.Random(1)
    with or_skipped(lab(rate=200, workers=1)) as made:
        for fault in (cut, broker_kill, kill):
            fault(made, rng)
            made.wait_for_commit()
        made.finish()
        deployment, answers = made.deployment, f"{made.deployment.name}.assignments"
        assert judges.books(deployment) > 200
        judges.verify(deployment)
        said = read_topic(deployment.broker, answers)
        assert judges.console_consumer(deployment) == len(said)
        again = said[-1]
        produce(
            deployment.broker, answers, [(again.partition(), again.key(), again.value())], headers=again.headers() or ()
        )
        with pytest.raises(AssertionError, match="1 records answered again"):
            judges.books(deployment)
        with pytest.raises(AssertionError, match="1 of"):
            judges.console_consumer(deployment)
        produce(deployment.broker, deployment.input, [(0, b"k", b"{}")])
        with pytest.raises(AssertionError, match="1 records without an answer"):
            judges.books(deployment)


def test_every_kind_of_fault_comes_as_often_as_the_others():
    chosen = plan(FAULTS, 3 * len(FAULTS), random.Random(5))
    assert sorted(fault.__name__ for fault in chosen) == sorted(fault.__name__ for fault in FAULTS * 3)
    assert chosen == plan(FAULTS, 3 * len(FAULTS), random.Random(5)) != plan(FAULTS, 3 * len(FAULTS), random.Random(6))
