"""Change capture from PostgreSQL: pgoutput, types, positions and the hand-over from a snapshot."""
