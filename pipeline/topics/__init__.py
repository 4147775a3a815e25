"""The topics of a deployment: what they must be, what they are, and what they cost."""
