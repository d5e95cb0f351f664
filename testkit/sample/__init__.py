"""Data and programs to test with."""
