"""Topologies in YAML, in the words of Storm's Flux."""
