"""The topics of a deployment: what it requires of them, what they are, and what they cost."""
