"""The storage engine: Kafka's files and formats, synchronous, with file system and clock passed in."""
