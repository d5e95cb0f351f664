"""Sink processors: which sink of a group gets the next batch."""
