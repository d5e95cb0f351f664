"""Collecting events and moving them hop by hop: an agent that runs a Flume configuration."""
