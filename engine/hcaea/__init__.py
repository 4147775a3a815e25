"""HCAEA: a tree of CAEA models, as a whole and as a root with subtrees that live elsewhere."""

from resonance.engine.hcaea.engine import HCAEA
from resonance.engine.hcaea.operations import Operations, RootStep, SubtreeStep
from resonance.engine.hcaea.root import HCAEARoot
from resonance.engine.hcaea.subtree import HCAEASubtree

__all__ = ["HCAEA", "HCAEARoot", "HCAEASubtree", "Operations", "RootStep", "SubtreeStep"]
