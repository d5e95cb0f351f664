"""Servers and protocols of the network sources and sinks."""
