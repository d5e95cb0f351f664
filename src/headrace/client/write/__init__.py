"""Writes Arrow tables as records of topics."""
