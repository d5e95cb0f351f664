"""Sources: they produce events."""
