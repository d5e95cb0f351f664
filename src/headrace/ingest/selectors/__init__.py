"""Selectors: which channels an event goes to."""
