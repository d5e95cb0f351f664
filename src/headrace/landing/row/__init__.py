"""How records become rows: bytes as they are, JSON, Avro with schemas, change events."""
