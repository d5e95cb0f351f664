"""Mirrors that the target's own brokers copy: identical offsets (decision 0040)."""
