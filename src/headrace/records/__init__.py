"""Kafka's record batches: their headers, their compression, and their records as Arrow columns."""
