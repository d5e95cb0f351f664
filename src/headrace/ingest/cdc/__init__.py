"""Change capture: the events of a database's changes, without its connections."""
