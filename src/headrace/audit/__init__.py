"""Audit: counts that show whether everything that was sent arrived everywhere."""
