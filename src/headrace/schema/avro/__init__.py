"""Avro: a tree of types, its text as Java's library writes it, and who can read whom."""
