"""A hierarchy whose subtrees are learned in tasks of their own."""
