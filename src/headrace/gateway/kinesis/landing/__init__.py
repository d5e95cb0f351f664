"""Lands channels: reads the records of streams and writes them to files."""
