"""Reads a Flume configuration into the plan of an agent."""
