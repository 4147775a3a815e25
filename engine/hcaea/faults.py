"""What does not fit in the packed models of a tree, looked at once like each of the models."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea import block, faults
from resonance.engine.caea.packing import parts_of


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
        code, where = faults.model_fault(floats, at_floats, packed, at, rules, classes)
        if code != faults.FITS:
            return code, where
        k, level = packed[at + block.K], packed[at + block.LEVEL]
        if level > above + 1 or level < first or (level == first) != (at == 0):
            return block.LEVEL, at + block.LEVEL
        if level > first:
            parent = begins[level - 1]
            nodes = packed[parent + block.K]
            names = parent + block.HEAD + block.ID * nodes
            node = free[level - 1]
            while node < nodes and packed[names + node] != packed[at + block.PARENT_ID]:
                node += 1
            if node == nodes:
                return block.PARENT_ID, at + block.PARENT_ID
            free[level - 1] = node + 1
        begins[level], free[level], above = at, 0, level
        _, _, _, kept, length = parts_of(packed, at, d, rules.h)
        at_floats += length
        at, last = kept + k + 1, level + 1 == rules.max_depth
        if at > len(packed):
            return faults.CUT, kept
        for node in range(k + 1):
            count = packed[kept + node]
            # Nodes of the last level never have a child that could learn what they kept.
            if count < 0 or (count > 0 and last) or (node < k and count > rules.keep):
                return faults.KEPT, kept + node
            if count > len(packed) - at or count * d > len(floats) - at_floats:
                return faults.CUT, kept + node
            if not np.isfinite(floats[at_floats : at_floats + count * d]).all():
                return faults.NUMBER, kept + node
            for record in range(at, at + count):
                if packed[record] < -1 or packed[record] >= classes:
                    return faults.KEPT, record
            at_floats += count * d
            at += count
    if at == 0:
        return faults.CUT, 0
    return (faults.FITS, 0) if at_floats == len(floats) else (faults.REST, at)
