"""The figures of ILDN's specification, as far as they are quick."""

import pytest

from bench import ildn


def test_two_belts_end_in_two_nodes():
    assert [ildn.of_belts(seed) for seed in range(3)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("open_ended", "nodes", "components", "least"), [(False, (19, 22), (5, 7), 0.91), (True, (15, 20), (5, 8), 0.88)]
)
def test_five_parts_among_noise_are_found_at_once_and_one_after_the_other(open_ended, nodes, components, least):
    found_nodes, found_components, ari = ildn.of_parts(0, 3e-5, open_ended)
    assert nodes[0] <= found_nodes <= nodes[1]
    assert components[0] <= found_components <= components[1]
    assert ari >= least


@pytest.mark.golden
@pytest.mark.skipif(ildn.segment(0) is None, reason="Segment does not lie beside this checkout")
def test_segment_takes_as_many_nodes_as_the_specification_says_and_is_told_apart_as_well():
    nodes, by_distance, euclidean = ildn.of_segment(0)
    assert 402 <= nodes <= 451
    assert by_distance >= 0.92
    assert euclidean >= 0.92


def test_a_figure_outside_of_the_range_is_marked():
    assert ildn._row("a", "nodes", (1.0, 2.0), 1, 2).reference == "specification 1 to 2"
    assert ildn._row("a", "nodes", (4.0, 2.0), 1, 2).reference == "specification 1 to 2, outside"
