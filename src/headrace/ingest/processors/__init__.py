"""Sink processors: they choose the sink of a group that gets the next batch."""
