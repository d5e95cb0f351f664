"""Sinks: they deliver events."""
