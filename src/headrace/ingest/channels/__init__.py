"""Channels: where events wait between a source and a sink."""
