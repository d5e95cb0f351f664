"""Folders that a flow keeps files in, on any file system that Spark reaches."""
