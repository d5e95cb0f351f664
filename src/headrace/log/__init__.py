"""The storage engine: Kafka's files, synchronous, with file system and clock passed in."""
