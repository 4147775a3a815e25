"""HCAEA: a tree of CAEA models, as a whole and as a root with subtrees that live elsewhere."""
