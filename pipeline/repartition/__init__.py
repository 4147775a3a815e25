"""The second hop: records that are learned where their stream lives, and not where they were read."""
