"""Channels: queues of events between sources and sinks."""
