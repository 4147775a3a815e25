"""What does not fit in the packed models of a tree, looked at once like each of the models."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea import faults
from resonance.engine.caea.faults import first_not_finite, model_fault
from resonance.engine.caea.packing import model_lengths


@jit
def tree_fault(floats, packed, rules, classes, first):
    """Return what is wrong with the packed models of a tree, `FITS` where nothing is, and at which integer.

    The first of them is the only one on level `first`: 0 for a root, 1 for what is below one of its nodes.

    They stand depth first in node order, and behind each what its nodes keep. Not checked here: how many leaves there
    are, which the tree itself says.
    """
    d = rules.d
    begins = np.full(rules.max_depth + 1, -1, dtype=np.int64)  # the last model of each level
    free = np.zeros(rules.max_depth + 1, dtype=np.int64)  # its first node that may be the parent of what comes
    at_floats, at, above = 0, 0, first - 1
    while at < len(packed):
        code, where = model_fault(floats, at_floats, packed, at, rules, classes)
        if code != faults.FITS:
            return code, where
        k, level = packed[at + 1], packed[at + 7]
        if level > above + 1 or level < first or (level == first) != (at == 0):
            return faults.PLACE, at + 7
        if level > first:
            parent = begins[level - 1]
            names, nodes = parent + faults.SMALLEST_MODEL + packed[parent + 1], packed[parent + 1]
            node = free[level - 1]
            while node < nodes and packed[names + node] != packed[at + 6]:
                node += 1
            if node == nodes:
                return faults.PLACE, at + 6
            free[level - 1] = node + 1
        begins[level], free[level], above = at, 0, level
        length_floats, length = model_lengths(packed, at, d, rules.h)
        at_floats += length_floats
        at += length
        if at + k + 1 > len(packed):
            return faults.CUT, at
        kept, last = at, level + 1 == rules.max_depth
        at += k + 1
        for node in range(k + 1):
            count = packed[kept + node]
            # Nodes of the last level never have a child that could learn what they kept.
            if count < 0 or (count > 0 and last) or (node < k and count > rules.keep):
                return faults.KEPT, kept + node
            if count > len(packed) - at or count * d > len(floats) - at_floats:
                return faults.CUT, kept + node
            if first_not_finite(floats, at_floats, at_floats + count * d) >= 0:
                return faults.NUMBER, kept + node
            for record in range(count):
                if packed[at + record] < -1 or packed[at + record] >= classes:
                    return faults.LABEL, at + record
            at_floats += count * d
            at += count
    if at == 0:
        return faults.CUT, 0
    return (faults.FITS, 0) if at_floats == len(floats) else (faults.REST, at)
