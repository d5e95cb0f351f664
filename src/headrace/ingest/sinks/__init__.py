"""Sinks: where events go."""
