"""Reads topics as Arrow columns."""
