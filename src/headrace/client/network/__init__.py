"""Connections to the brokers of a cluster, and the metadata that names each partition's leader."""
