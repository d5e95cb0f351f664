"""A running agent: its components, its threads, its monitor."""
