"""Audit: whether everything that was sent arrived everywhere, told from counts."""
