"""Headrace in processes of its own, and clients that talk to it."""
