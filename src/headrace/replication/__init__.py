"""Replication: who leads a partition, who is in sync, and up to where records are safe."""
