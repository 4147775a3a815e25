"""Decides from the answers, the drift events and the times of records when something needs a look."""
