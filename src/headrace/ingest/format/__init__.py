"""Formats of events: bytes to events, and events to bytes."""
