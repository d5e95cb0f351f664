"""Keeping the last record of each key, in columns."""
