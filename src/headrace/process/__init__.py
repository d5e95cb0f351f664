"""Processes we start: children that do not outlive their parent."""
