"""Ids, offsets, errors and configuration: the words every other package speaks. Imports nothing."""
