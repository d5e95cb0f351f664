"""A Kafka-protocol client for bulk work: Arrow in, Arrow out."""
