"""Selectors: they choose the channels of an event."""
