"""Connections from this broker to the other brokers."""
