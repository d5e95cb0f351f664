"""Channels: which records of a stream lie in which files, as a pure machine."""
