"""The order of an evaluation: of the routes that workers made, and of time where there are none."""

import numpy as np
import pytest
from resonance.pipeline.evaluate.order import Ways, routed, ways_of

NONE = (-1, -1)


def ordered(*records):
    """Order records given as (partition, time, route); return them by their names, a, b, c."""
    log, times, ways = (np.array(column) for column in zip(*records, strict=True))
    order, is_exact = routed(times, log.astype(np.int32), ways)
    return "".join("abcdef"[place] for place in order), is_exact


def test_routes_decide_and_time_where_they_do_not():
    # Two partitions of the input, a b and c d e, and two of the routes.
    assert ordered((0, 1, (0, 5)), (0, 2, (1, 0)), (1, 3, (0, 2)), (1, 4, (1, 9)), (1, 5, (0, 7))) == ("cabde", True)


def test_records_without_routes_are_in_the_order_of_time_and_of_their_partition():
    assert ordered((0, 3, NONE), (0, 1, NONE), (1, 2, NONE), (1, 4, NONE)) == ("cabd", True)


def test_orders_that_contradict_each_other_are_not_exact():
    # In the input a before b and c before d; in the routes d before a, and b before c.
    records = (0, 1, (0, 8)), (0, 2, (1, 0)), (1, 3, (1, 1)), (1, 4, (0, 7))
    assert ordered(*records) == ("abcd", False)


@pytest.mark.parametrize("own", [Ways(*np.array([[2, 0, 7], [4, 1, 3]]).T), None])
def test_each_record_has_the_way_of_its_offset(own):
    found = ways_of(own, np.array([1, 2, 4, 9])).tolist()
    assert found == ([[-1, -1], [0, 7], [1, 3], [-1, -1]] if own else [[-1, -1]] * 4)
