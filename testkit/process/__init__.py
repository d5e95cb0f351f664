"""Headrace in processes of its own, and clients that send it requests."""
